"""A small collection of well-known facts in ten scripts and English, and a question in each: for tests and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from denslice import Index

FILTERABLE = ("language", "topic")


class Question(NamedTuple):
    """A question as people type it, the id of the document that answers it, and a word that its text has marked."""

    text: str
    id: str
    marked: str


# By language: title, topic and text of each document.
FACTS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "English": (
        (
            "The Moon",
            "nature",
            "The Moon goes around the Earth in about 27 days. Its gravity causes the tides of the sea.",
        ),
        ("William Shakespeare", "history", "Shakespeare wrote Hamlet and Macbeth. He was born in Stratford-upon-Avon."),
        ("The Nile", "places", "The Nile flows north through Sudan and Egypt and ends in the Mediterranean Sea."),
        (
            "Honey bees",
            "nature",
            "Bees collect nectar from flowers, make honey of it and receive pollen on their legs.",
        ),
    ),
    "German": (
        ("Berliner Mauer", "history", "Die Berliner Mauer teilte die Stadt ab 1961. Sie fiel am 9. November 1989."),
        ("Der Rhein", "places", "Der Rhein entspringt in den Schweizer Alpen und mündet bei Rotterdam in die Nordsee."),
        ("Johannes Gutenberg", "history", "Gutenberg erfand in Mainz den Buchdruck mit beweglichen Lettern."),
    ),
    "Russian": (
        ("Байкал", "places", "Байкал — самое глубокое озеро в мире. Его глубина достигает 1642 метров."),
        ("Юрий Гагарин", "history", "Юрий Гагарин первым из людей полетел в космос 12 апреля 1961 года."),
        ("Волга", "places", "Волга — самая длинная река Европы. Она впадает в Каспийское море."),
    ),
    "Greek": (
        ("Ο Όλυμπος", "places", "Ο Όλυμπος είναι το ψηλότερο βουνό της Ελλάδας. Εκεί κατοικούσαν οι θεοί."),
        ("Ο Παρθενώνας", "history", "Ο Παρθενώνας βρίσκεται στην Ακρόπολη της Αθήνας και ήταν ναός της Αθηνάς."),
        ("Ο Σωκράτης", "history", "Ο Σωκράτης ήταν φιλόσοφος στην αρχαία Αθήνα και δάσκαλος του Πλάτωνα."),
    ),
    "Arabic": (
        ("القاهرة", "places", "القاهرة هي عاصمة مصر، وتقع على ضفاف نهر النيل بالقرب من أهرامات الجيزة."),
        ("الجمل", "nature", "يعيش الجمل في الصحراء، ويستطيع أن يسير أياما طويلة من دون أن يشرب الماء."),
        ("ابن بطوطة", "history", "ابن بطوطة رحالة من مدينة طنجة سافر إلى الهند والصين في القرن الرابع عشر."),
    ),
    "Hebrew": (
        ("ים המלח", "places", "ים המלח הוא המקום הנמוך ביותר על פני היבשה. המים בו מלוחים מאוד."),
        ("ירושלים", "places", "ירושלים היא עיר עתיקה בהרי יהודה, והיא קדושה לשלוש דתות."),
        ("הכינרת", "places", "הכינרת היא אגם מים מתוקים בצפון ישראל, ונהר הירדן זורם דרכה."),
    ),
    "Hindi": (
        ("ताजमहल", "history", "ताजमहल आगरा में है। इसे शाहजहाँ ने अपनी पत्नी मुमताज़ की याद में बनवाया था।"),
        ("गंगा", "places", "गंगा नदी हिमालय से निकलती है और बंगाल की खाड़ी में गिरती है।"),
        ("मोर", "nature", "मोर भारत का राष्ट्रीय पक्षी है। वह बरसात में पंख फैलाकर नाचता है।"),
    ),
    "Thai": (
        ("กรุงเทพมหานคร", "places", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย ตั้งอยู่ริมแม่น้ำเจ้าพระยา"),
        ("ช้าง", "nature", "ช้างเป็นสัตว์บกที่ใหญ่ที่สุดในโลก และเป็นสัตว์ประจำชาติของไทย"),
        ("ดอยอินทนนท์", "places", "ดอยอินทนนท์เป็นภูเขาที่สูงที่สุดในประเทศไทย อยู่ในจังหวัดเชียงใหม่"),
    ),
    "Chinese": (
        ("长城", "history", "长城是中国古代修建的城墙，全长超过两万公里。"),
        ("大熊猫", "nature", "大熊猫生活在四川的山林里，主要吃竹子。"),
        ("黄河", "places", "黄河是中国第二长河，发源于青海，流入渤海。"),
    ),
    "Japanese": (
        ("富士山", "places", "富士山は日本で一番高い山で、高さは3776メートルです。"),
        ("新幹線", "history", "新幹線は1964年に東京と新大阪の間で走りはじめました。"),
        ("さくら", "nature", "さくらの花は春に咲きます。人びとは木の下で花見を楽しみます。"),
    ),
    "Korean": (
        ("한글", "history", "한글은 조선의 세종대왕이 1443년에 만든 글자입니다."),
        ("한라산", "places", "한라산은 제주도에 있는 산으로 남한에서 가장 높습니다."),
        ("김치", "nature", "김치는 배추와 무를 소금에 절여 고춧가루로 양념한 음식입니다."),
    ),
}
QUESTIONS: Mapping[str, Question] = {
    "English": Question("what causes the tides", "English-0", "tides"),
    "German": Question("Wann fiel die Berliner Mauer?", "German-0", "fiel"),
    "Russian": Question("кто первым полетел в космос", "Russian-1", "космос"),
    "Greek": Question("ποιο είναι το ψηλότερο βουνό;", "Greek-0", "βουνό"),
    "Arabic": Question("ما هي عاصمة مصر؟", "Arabic-0", "عاصمة"),
    "Hebrew": Question("מה המקום הנמוך ביותר בעולם", "Hebrew-0", "הנמוך"),
    "Hindi": Question("ताजमहल किसने बनवाया था?", "Hindi-0", "बनवाया"),
    "Thai": Question("ภูเขาที่สูงที่สุดในประเทศไทย", "Thai-2", "ภูเขาที่สูงที่สุดในประเทศไทย"),
    "Chinese": Question("大熊猫吃什么？", "Chinese-1", "大熊猫"),
    "Japanese": Question("日本で一番高い山は何ですか", "Japanese-0", "日本で一番高い山"),
    "Korean": Question("한글은 누가 만들었습니까", "Korean-0", "한글은"),
}


def documents() -> list[dict[str, Any]]:
    """Return all documents, each with its language and topic."""
    return [
        {"id": f"{language}-{number}", "title": title, "text": text, "language": language, "topic": topic}
        for language, facts in FACTS.items()
        for number, (title, topic, text) in enumerate(facts)
    ]


def ten_scripts_index(path: str) -> Index:
    """Return a new index of all documents."""
    index = Index.create(path, filterable=list(FILTERABLE))
    index.add(documents())
    return index
