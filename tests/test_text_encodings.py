"""Texts are read in whatever encoding and compression they are, and binaries are told apart from them."""

from __future__ import annotations

import array
import bz2
import gzip
import logging
import pickle
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from denslice.corpus.compression import ending, is_compressed, is_damage, open_bytes
from denslice.corpus.text_encodings import SAMPLE, decoded, encoding_of, is_wide
from denslice.errors import UnreadableError

ENGLISH = "The café on the corner serves “naïve” food – for 5 €. Nobody knows why.\n"
FRENCH = "Le café était fermé, où êtes-vous allés après l'été ? Ça coûte trop cher à côté de l'hôtel.\n"
GERMAN = "Die Straße führt über den Hügel. Während des Sommers blühen dort schöne Blumen.\n"
SPANISH = "El niño comió una piña en España. ¿Cuándo volverá mañana?\n"
POLISH = "Wczoraj byłem w Łodzi i jadłem pączki. Dziś jest piękna pogoda, więc idę na spacer.\n"
CZECH = "Dnes je v Praze pěkné počasí a děti šly do školy. Příliš žluťoučký kůň úpěl ďábelské ódy.\n"
RUSSIAN = "Сегодня в Москве хорошая погода. Мы пойдём гулять в парк, а потом выпьем чаю.\n"
GREEK = "Σήμερα ο καιρός είναι καλός και πάμε βόλτα στην παραλία.\n"
HEBREW = "היום מזג האוויר יפה מאוד ואנחנו הולכים לטייל בפארק.\n"
JAPANESE = "これは日本語のテキストです。今日は天気がいいので、東京の公園に行きます。\n"
CHINESE = "这是一个中文文本文件。今天天气很好，我们去公园散步。北京是中国的首都。\n"
TAIWANESE = "這是一個中文文字檔案。今天天氣很好，我們去公園散步。臺北是一個城市。\n"
KOREAN = "이것은 한국어 텍스트입니다. 오늘은 날씨가 좋아서 공원에 갑니다.\n"


def is_binary(raw: bytes) -> bool:
    try:
        encoding_of(raw)
    except UnreadableError as error:
        return error.kind == "binary"
    return False


# --- Unicode


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("text", ["", "a", "café", RUSSIAN, CHINESE])
def test_unicode_with_a_byte_order_mark_is_read(text: str, encoding: str) -> None:
    assert decoded(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["hi", "café au lait", "привет", ENGLISH, RUSSIAN, HEBREW, JAPANESE, CHINESE, KOREAN])
def test_utf_16_and_utf_32_are_read_without_a_byte_order_mark(text: str, encoding: str) -> None:
    raw = text.encode(encoding)
    assert (encoding_of(raw), decoded(raw)) == (encoding, text)
    assert is_wide(encoding)


def test_a_character_may_be_cut_where_a_sample_ends() -> None:
    assert encoding_of(b"a" * (SAMPLE - 1) + "é".encode()[:1]) == "utf-8"
    assert encoding_of(("é" * SAMPLE).encode()[:SAMPLE]) == "utf-8"


def test_line_ends_become_line_feeds() -> None:
    assert decoded(b"a\r\nb\rc\n") == "a\nb\nc\n"


def test_an_empty_file_is_a_text() -> None:
    assert (encoding_of(b""), decoded(b"")) == ("utf-8", "")


# --- legacy encodings


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((text, "latin-1") for text in (FRENCH, GERMAN, SPANISH)),
        *((text, "cp1252") for text in (ENGLISH, FRENCH, GERMAN, SPANISH)),
        *((text, "mac_roman") for text in (FRENCH, GERMAN)),
        *((text, encoding) for text in (POLISH, CZECH) for encoding in ("cp1250", "iso8859_2")),
        *((RUSSIAN, encoding) for encoding in ("cp1251", "koi8_r", "cp866", "iso8859_5")),
        (GREEK, "cp1253"),
        (HEBREW, "cp1255"),
        *((JAPANESE, encoding) for encoding in ("shift_jis", "euc_jp", "iso2022_jp")),
        *((CHINESE, encoding) for encoding in ("gb2312", "gbk", "gb18030")),
        (TAIWANESE, "big5"),
        (KOREAN, "euc_kr"),
    ],
)
@pytest.mark.parametrize("times", [1, 2000])
def test_a_text_of_a_few_sentences_is_read_in_its_encoding(text: str, encoding: str, times: int) -> None:
    assert decoded(text.encode(encoding) * times) == text * times


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((word, "latin-1") for word in ("café", "naïve", "Größe", "El Niño", "Ünal", "ÄÖÜ", "10 £", "résumé")),
        *((word, "cp1252") for word in ("5 €", "it’s", "“so”")),
        ("Łódź", "cp1250"),
        ("привет", "cp1251"),
        ("привет", "koi8_r"),
        ("テスト", "shift_jis"),
        ("中文", "gb18030"),
    ],
)
def test_a_single_word_is_read_in_the_likeliest_encoding(text: str, encoding: str) -> None:
    assert decoded(text.encode(encoding)) == text


def test_an_encoding_is_recognised_where_a_text_first_leaves_ascii() -> None:
    raw = b"plain text\n" * 20_000 + FRENCH.encode("latin-1")
    assert decoded(raw).endswith(FRENCH)


def test_a_few_wrong_bytes_do_not_change_the_encoding() -> None:
    text = FRENCH * 100
    raw = text.encode()
    assert decoded(raw[:5000] + b"\xff" + raw[5000:]).replace("\ufffd", "") == text
    assert decoded(b"plain\n" * 1000 + b"\xff" + b"plain\n" * 1000) == "plain\n" * 1000 + "\ufffd" + "plain\n" * 1000
    japanese = (JAPANESE * 100).encode("shift_jis")
    assert decoded(japanese + b"\xff\n").startswith(JAPANESE * 100)


# --- binaries


def test_a_stray_zero_becomes_a_space() -> None:
    assert decoded(b"one\0two") == "one two"
    assert decoded(FRENCH.encode() + b"\0" + FRENCH.encode()) == f"{FRENCH} {FRENCH}"


def test_zeros_that_fill_up_a_text_become_spaces() -> None:
    assert decoded(b"a line of a log\n" * 20 + b"\0" * 100).rstrip() == "\n".join(["a line of a log"] * 20)


def test_logs_with_colours_are_texts() -> None:
    assert not is_binary(b"\x1b[31merror\x1b[0m \x08\x0c\x1a\n" * 10)


def test_control_characters_may_separate_fields() -> None:
    raw = b"id\x01title\x01text\x021\x01one\x01a text\x02" * 30
    assert decoded(raw) == raw.decode()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\x89PNG\r\n\x1a\n",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        b"PK\x03\x04\x14",
        b"%PDF-1.7\n%text",
        bytes(1000),
        b"\xff\xfe" + random.Random(1).randbytes(1000),  # no UTF-16 after its mark
        *(pickle.dumps(thing, protocol=protocol) for thing in (1, "text" * 99) for protocol in (2, 4, 5)),
        *(array.array(kind, range(3000)).tobytes() for kind in "hilfd"),
        gzip.compress(FRENCH.encode() * 20, mtime=0),
    ],
)
def test_a_binary_is_no_text(raw: bytes) -> None:
    assert is_binary(raw)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_no_text(seed: int) -> None:
    choice = random.Random(seed)
    size = choice.randint(50, 5000)
    assert is_binary(choice.randbytes(size))
    assert is_binary(bytes(choice.choices(range(1, 256), k=size)))
    assert is_binary(bytes(choice.choices([*range(32, 127), *range(128, 256)], k=size)))


@given(st.binary() | st.text().map(lambda text: text.encode("utf-16-le", errors="surrogatepass")))
@example(b"\xff\xfe\x00")
@example(b"\xff\xfe\x00\xd8")
@example(b"\x00\x00\xfe\xff\x00")
@example(b"\xff\xfe\x00\x00\xff\xff\xff\xff")
@example(b"\x1b$B")
def test_only_unreadable_error_is_raised(raw: bytes) -> None:
    try:
        text = decoded(raw)
    except UnreadableError:
        return
    text.encode()
    assert "\0" not in text
    assert "\r" not in text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"])))
def test_any_text_in_utf_8_is_read(text: str) -> None:
    assert decoded(text.encode()) == text.removeprefix("\ufeff")


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.DEBUG):
        decoded(FRENCH.encode("latin-1"))
        is_binary(bytes(range(256)))
    assert (caplog.records, *capfd.readouterr()) == ([], "", "")


# --- compression

TEXT = b"one line\nanother line\n" * 20_000
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.fixture(params=PACKED)
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"Docs.TXT{request.param}"
    path.write_bytes(PACKED[request.param](TEXT))
    return path


def test_a_compressed_file_is_read_as_what_it_holds(packed: Path) -> None:
    with open_bytes(packed) as file:
        assert file.read() == TEXT
    assert (ending(packed), is_compressed(packed)) == (".txt", True)


def test_a_compressed_file_has_lines(packed: Path) -> None:
    with open_bytes(packed) as file:
        assert file.readline(4) == b"one "
        assert file.readline(99) == b"line\n"
        assert sum(1 for _ in file) == 39_999


def test_a_compressed_file_may_have_several_parts(packed: Path) -> None:
    packed.write_bytes(packed.read_bytes() * 2)
    with open_bytes(packed) as file:
        assert file.read() == TEXT * 2


@pytest.mark.parametrize("cut", [1, 4, 20])
def test_a_compressed_file_that_is_cut_is_damaged(packed: Path, cut: int) -> None:
    packed.write_bytes(packed.read_bytes()[:-cut])
    assert is_damaged(packed)


def test_a_file_that_is_not_compressed_as_its_name_says_is_damaged(packed: Path) -> None:
    packed.write_bytes(b"plain text")
    assert is_damaged(packed)


def test_other_errors_are_no_damage() -> None:
    assert is_damage(zlib.error("incorrect header check"))
    assert not is_damage(PermissionError(13, "Permission denied"))


def is_damaged(path: Path) -> bool:
    with pytest.raises((EOFError, OSError, zstandard.ZstdError)) as caught, open_bytes(path) as file:
        file.read()
    return is_damage(caught.value)
