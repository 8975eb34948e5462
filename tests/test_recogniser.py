"""The recogniser: the language of passages and of queries."""

import pytest

from denslice.analysis.languages import CODES, is_written_in
from denslice.analysis.recogniser import recognised, recognised_among

# fmt: off
PASSAGES = {
    "arabic": "تقع المدينة على ضفة النهر، وقد بناها الملك في القرن العاشر، ويعيش فيها اليوم كثير من الناس.",
    "chinese": "这座城市位于河边，由国王在十世纪建造，今天有很多人住在那里。",
    "czech": "Město leží na břehu řeky, postavil ho král v desátém století a dnes v něm žije mnoho lidí.",
    "dutch": "De stad ligt aan de rivier, "
    "werd in de tiende eeuw door de koning gebouwd en vandaag wonen er veel mensen.",
    "english": "The city lies on the river; the king built it in the tenth century, "
    "and today many people live in it.",
    "finnish": "Kaupunki sijaitsee joen varrella, "
    "kuningas rakensi sen kymmenennellä vuosisadalla, ja siellä asuu paljon ihmisiä.",
    "french": "La ville se trouve au bord du fleuve, "
    "le roi l'a construite au dixième siècle et beaucoup de gens y vivent.",
    "german": "Die Stadt liegt am Fluss, "
    "der König hat sie im zehnten Jahrhundert gebaut, und heute leben dort viele Menschen.",
    "greek": "Η πόλη βρίσκεται δίπλα στο ποτάμι, την έχτισε ο βασιλιάς και σήμερα ζουν εκεί πολλοί άνθρωποι.",
    "hebrew": "העיר נמצאת על שפת הנהר, המלך בנה אותה במאה העשירית, והיום גרים בה אנשים רבים.",
    "hindi": "यह शहर नदी के किनारे बसा है, इसे राजा ने दसवीं सदी में बनवाया था और आज यहाँ बहुत लोग रहते हैं।",
    "italian": "La città si trova sul fiume, il re l'ha costruita nel decimo secolo e oggi ci vivono molte persone.",
    "japanese": "この町は川のそばにあり、十世紀に王が建てたもので、今では多くの人が住んでいる。",
    "korean": "이 도시는 강가에 있으며 십 세기에 왕이 세웠고 오늘날 많은 사람이 살고 있다.",
    "persian": "این شهر در کنار رودخانه قرار دارد، "
    "پادشاه آن را در قرن دهم ساخت و امروز مردم بسیاری در آن زندگی می‌کنند.",
    "polish": "Miasto leży nad rzeką, król zbudował je w dziesiątym wieku, a dziś mieszka w nim wielu ludzi.",
    "portuguese": "A cidade fica à beira do rio, "
    "foi construída pelo rei no século dez e hoje muitas pessoas vivem lá.",
    "romanian": "Orașul se află pe malul râului, "
    "regele l-a construit în secolul al zecelea, iar astăzi trăiesc acolo mulți oameni.",
    "russian": "Город стоит на берегу реки, король построил его в десятом веке, и сегодня в нём живёт много людей.",
    "spanish": "La ciudad está junto al río, "
    "el rey la construyó en el siglo diez y hoy viven en ella muchas personas.",
    "thai": "เมืองนี้ตั้งอยู่ริมแม่น้ำ กษัตริย์สร้างขึ้นในศตวรรษที่สิบ และปัจจุบันมีผู้คนอาศัยอยู่มากมาย",
    "turkish": "Şehir nehrin kıyısındadır, kral onu onuncu yüzyılda yaptırdı ve bugün orada çok insan yaşıyor.",
    "ukrainian": "Місто стоїть на березі річки, "
    "король збудував його в десятому столітті, і сьогодні в ньому живе багато людей.",
    "vietnamese": "Thành phố nằm bên bờ sông, "
    "nhà vua xây dựng nó vào thế kỷ thứ mười và ngày nay có nhiều người sống ở đó.",
}
# fmt: on


@pytest.mark.parametrize("language", PASSAGES)
def test_the_language_of_a_passage_is_recognised(language: str) -> None:
    assert recognised(PASSAGES[language]) == language


@pytest.mark.parametrize(
    "text", ["", "?!", "42 1.5 3e8", "x = foo(y) + 1", "Maria Rossi, Jean Dupont", "IL-2 TNF-α", "Lorem ipsum", "🦊"]
)
def test_a_text_whose_language_is_not_clear_is_taken_for_english(text: str) -> None:
    assert recognised(text) == "english"


def test_a_word_of_another_script_does_not_make_a_text_of_it() -> None:
    assert recognised(f"{PASSAGES['english']} город 北京") == "english"
    assert recognised(f"{PASSAGES['russian']} Berlin 北京") == "russian"


def test_a_query_is_in_the_language_of_the_collection() -> None:
    assert recognised_among("berlin einwohner", {"english": 10}) == ["english"]
    assert recognised_among("berlin einwohner", {}) == ["english"]
    assert recognised_among("anything", {"english": 9_999, "german": 1}) == ["english"]


def test_a_query_in_a_mixed_collection_has_its_own_language_or_all_if_it_is_not_clear() -> None:
    counts = {"english": 500, "german": 400, "russian": 100, "chinese": 10}
    assert recognised_among("Wie viele Einwohner hat die Stadt?", counts) == ["german"]
    assert recognised_among("How many people live in the city?", counts) == ["english"]
    assert recognised_among("c++ templates", counts) == ["english", "german"]
    assert recognised_among("город", counts) == ["russian"]
    assert recognised_among("2016", counts) == ["english"]
    assert recognised_among("长江在哪里", counts) == ["chinese"]
    assert recognised_among("대한민국의 수도", counts) == ["korean"]
    assert recognised_among("대한민국의 수도", {"english": 10}) == ["korean"]


def test_every_language_is_written_in_a_script_or_without_spaces() -> None:
    unspaced = {"burmese", "chinese", "japanese", "khmer", "korean", "lao", "thai"}
    scripts = ("Latin", "Cyrillic", "Arabic", "Devanagari", "Greek", "Armenian", "Hebrew", "Tamil")
    for name in CODES.values():
        assert any(is_written_in(name, script) for script in scripts) != (name in unspaced)
