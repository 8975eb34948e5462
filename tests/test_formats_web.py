"""Pages, books and mail become documents: what is read, and what hostile files cannot do."""

from __future__ import annotations

import base64
import io
import logging
import struct
import sys
import zipfile
from collections.abc import Callable, Iterable
from email.message import EmailMessage
from pathlib import Path

import pytest

from denslice.corpus.formats import html_pages, mail_messages, mailboxes, zip_limits
from denslice.corpus.formats.epub_books import read_epub
from denslice.corpus.formats.html_pages import read_html
from denslice.corpus.formats.mail_messages import read_eml
from denslice.corpus.formats.mailboxes import read_mbox
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.web_archives import read_mhtml
from denslice.corpus.formats.zip_limits import checked_zip, read_entry
from denslice.corpus.markup import markup_of
from denslice.errors import InputError, MissingExtraError, UnreadableError
from denslice.records import Doc, checked_docs

ARTICLE = """<!DOCTYPE html>
<html lang="en-GB"><head><meta charset="utf-8"><title>Otters return | The Valley Post</title>
<meta name="author" content="Jane Doe"><meta property="article:published_time" content="2024-03-05T10:00:00Z">
<meta property="og:title" content="Otters return"><link rel="canonical" href="https://post.example/otters">
<script>var tracker = "scriptword";</script><style>.styleword { color: red }</style></head><body>
<header><a href="/">Homepage</a> <form><input name="q"><button>Searchbutton</button></form></header>
<nav><ul><li><a href="/sports">Sportsection</a></li><li><a href="/weather">Weathersection</a></li></ul></nav>
<div id="cookie-banner" class="cookie-consent">We use cookies. <button>Acceptcookies</button></div>
<div class="content"><div class="story">
<h1>Otters return to the river</h1>
<p>After thirty years of absence, otters have been seen in the upper valley, biologists said on Tuesday.</p>
<h2>Water quality</h2>
<p>The nitrate levels fell by half, and with them the algae that had covered the riverbed for a generation.</p>
<p>Fish came back first, then the herons, and at last the otters, which need five kilometres of clean bank each.</p>
<h2>Outlook</h2>
<p>The biologists hope that the population doubles until the end of the decade, if there are no more floods.</p>
</div></div>
<aside class="sidebar"><h3>Mostread</h3><ul><li><a href="/1">Tenshockingthings</a></li></ul></aside>
<footer><a href="/imprint">Imprintlink</a> Copyrightnotice 2024</footer></body></html>"""
AROUND = (
    *("scriptword", "styleword", "Homepage", "Searchbutton", "Sportsection", "Weathersection", "Acceptcookies"),
    *("Mostread", "Tenshockingthings", "Imprintlink", "Copyrightnotice"),
)


def source(folder: Path, name: str, raw: bytes | str) -> SourceFile:
    """A file with these contents."""
    path = folder / name
    path.write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return SourceFile(path, name)


def one(docs: Iterable[Doc]) -> Doc:
    """The only document, with an id, as an index takes it."""
    (doc,) = docs
    assert doc.id == ""
    (checked,) = checked_docs([{**doc.to_dict(), "id": "a"}])
    assert checked.text.encode() is not None
    return checked


def page(folder: Path, body: str | bytes, name: str = "a.html") -> Doc:
    """The document of a page."""
    return one(read_html(source(folder, name, body)))


def headings(text: str) -> list[tuple[int, str]]:
    """The headings of a text as passages see them."""
    return [(heading.level, heading.text) for heading in markup_of(text).headings]


def zipped(entries: dict[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The bytes of a zip with these entries."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", method) as archive:
        for name, contents in entries.items():
            archive.writestr(name, contents)
    return whole.getvalue()


# Zip files


def test_an_entry_of_a_zip_is_read(tmp_path: Path) -> None:
    with checked_zip(source(tmp_path, "a.epub", zipped({"a/b.txt": "words", "empty": ""}))) as archive:
        assert read_entry(archive, "a/b.txt") == b"words"
        assert read_entry(archive, "empty") == b""


@pytest.mark.parametrize("raw", [b"", b"PK", b"no zip at all", b"\x89PNG\r\n" + bytes(100)])
def test_what_is_no_zip_is_damaged(tmp_path: Path, raw: bytes) -> None:
    assert kind_of(tmp_path, raw) == "damaged file"


def test_a_zip_cut_anywhere_is_damaged(tmp_path: Path) -> None:
    whole = zipped({"a.txt": "words " * 100, "b.txt": "more"})
    assert {kind_of(tmp_path, whole[:end]) for end in range(0, len(whole), 7)} == {"damaged file"}


def test_a_zip_that_unpacks_to_too_much_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_limits, "LARGEST_FILE", 1000)
    assert kind_of(tmp_path, zipped({"a": bytes(600), "b": bytes(401)})) == "large file"
    checked_zip(source(tmp_path, "fits.epub", zipped({"a": bytes(600), "b": bytes(400)}))).close()


def test_an_entry_that_is_larger_than_it_declares_is_damage(tmp_path: Path) -> None:
    raw = zipped({"a": bytes(100_000)})
    assert kind_of(tmp_path, raw.replace(struct.pack("<L", 100_000), struct.pack("<L", 10))) == "damaged file"


def test_entries_that_overlap_are_damage(tmp_path: Path) -> None:
    raw = zipped({"a": bytes(range(256)) * 40}, zipfile.ZIP_STORED)
    start, end = raw.index(b"PK\x01\x02"), raw.index(b"PK\x05\x06")
    entry, closing = raw[start:end], raw[end:]
    twice = closing[:8] + struct.pack("<HHL", 2, 2, 2 * len(entry)) + closing[16:]
    assert kind_of(tmp_path, raw[:start] + entry + entry + twice) == "damaged file"


def test_a_zip_of_too_many_entries_is_refused_before_they_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_limits, "MOST_ENTRIES", 10)
    assert kind_of(tmp_path, zipped({str(number): "" for number in range(11)})) == "damaged file"


def test_an_entry_before_the_beginning_of_the_zip_is_damaged(tmp_path: Path) -> None:
    raw = bytearray(zipped({"a": "words"}))
    at = raw.index(b"PK\x05\x06") + 16  # where the zip says that its list of entries is
    raw[at : at + 4] = struct.pack("<L", 50_000)
    with pytest.raises(UnreadableError) as error, checked_zip(source(tmp_path, "a.epub", bytes(raw))) as archive:
        read_entry(archive, "a")
    assert error.value.kind == "damaged file"


def test_methods_whose_output_python_does_not_bound_are_refused(tmp_path: Path) -> None:
    assert kind_of(tmp_path, zipped({"a": bytes(1000)}, zipfile.ZIP_BZIP2)) == "damaged file"


def test_a_password_is_reported_as_encryption(tmp_path: Path) -> None:
    raw = bytearray(zipped({"a": "words"}))
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    assert kind_of(tmp_path, bytes(raw)) == "encrypted file"


def test_a_damaged_or_missing_entry_is_named(tmp_path: Path) -> None:
    raw = zipped({"a": "the words"}, zipfile.ZIP_STORED).replace(b"the words", b"the w0rds")
    with checked_zip(source(tmp_path, "a.epub", raw)) as archive:
        with pytest.raises(UnreadableError, match="entry 'a' of the zip is damaged"):
            read_entry(archive, "a")
        with pytest.raises(UnreadableError, match="no entry 'b'"):
            read_entry(archive, "b")


def kind_of(folder: Path, raw: bytes) -> str:
    """The kind of problem that a zip of these bytes is."""
    with pytest.raises(UnreadableError) as error:
        checked_zip(source(folder, "a.epub", raw))
    return error.value.kind


# Pages


def test_the_main_text_of_a_page_is_read_without_what_is_around_it(tmp_path: Path) -> None:
    doc = page(tmp_path, ARTICLE)
    assert "Fish came back first, then the herons" in doc.text
    assert [word for word in AROUND if word in doc.text + doc.title] == []


def test_headings_of_a_page_are_those_of_markdown(tmp_path: Path) -> None:
    found = headings(page(tmp_path, ARTICLE).text)
    assert found == [(1, "Otters return to the river"), (2, "Water quality"), (2, "Outlook")]


def test_a_page_states_its_title_author_date_language_and_address(tmp_path: Path) -> None:
    doc = page(tmp_path, ARTICLE)
    address = "https://post.example/otters"
    assert doc.title == "Otters return"
    assert doc.meta == {"author": "Jane Doe", "date": "2024-03-05", "language": "en", "url": address}


def test_several_authors_and_the_date_come_from_json_ld(tmp_path: Path) -> None:
    linked = (
        '{"@graph": [{"@type": "Site"}, {"datePublished": "2021-07-09T08:00", "author": [{"name": "A B"}, "C D"]}]}'
    )
    doc = page(tmp_path, f'<script type="application/ld+json">{linked}</script><p>words')
    assert doc.meta == {"author": ["A B", "C D"], "date": "2021-07-09"}


@pytest.mark.parametrize(
    "linked", ['{"datePublished": 7, "author": {"name": ["x"]}}', '{"datePublished": "2021-99-99"', "[" * 100_000, ""]
)
def test_json_ld_that_says_nothing_is_ignored(tmp_path: Path, linked: str) -> None:
    assert page(tmp_path, f'<script type="application/ld+json">{linked}</script><p>words').meta == {}


def test_half_a_surrogate_pair_in_json_ld_becomes_a_question_mark(tmp_path: Path) -> None:
    linked = '{"datePublished": "2021-07-09", "author": "A \\ud800 B"}'
    assert page(tmp_path, f'<script type="application/ld+json">{linked}</script><p>w').meta["author"] == "A ? B"


def test_a_date_in_the_text_is_not_taken_for_that_of_the_page(tmp_path: Path) -> None:
    assert "date" not in page(tmp_path, "<p>The battle was on 2021-03-04, they say.").meta


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>words", "words"),
        ("no markup at all", "no markup at all"),
        ("<body><nav><a href=a>Only</a><a href=b>links</a></nav>", "Only links"),
        ("<table><tr><td>one<td>cell</table>", "| one | cell |"),
        ("<h1>Only a heading</h1>", "# Only a heading"),
        ("<title>Only a title</title>", ""),
        ("<p hidden>unseen</p><p style='display: none'>unseen</p><noscript>unseen</noscript><p>seen", "seen"),
        ("<html><body><p>one</body></html>two<html><p>three</html>", "one\n\ntwo\n\nthree"),
        ("", ""),
        ("<!-- -->", ""),
    ],
)
def test_short_pages_have_their_visible_text(tmp_path: Path, body: str, text: str) -> None:
    assert page(tmp_path, body).text == text


def test_a_list_of_links_keeps_them(tmp_path: Path) -> None:
    links = "".join(f"<dt><a href='https://{n}.example'>Bookmark number{n}</a>" for n in range(50))
    assert page(tmp_path, f"<h1>Bookmarks</h1><dl>{links}</dl>").text.count("Bookmark number") == 50


def test_a_page_without_an_article_is_read_without_its_navigation(tmp_path: Path) -> None:
    body = "<header>Top</header><nav>Navigation</nav><main><p>words<footer>Below</footer></main><footer>End</footer>"
    assert page(tmp_path, body).text == "words"


def test_lists_tables_and_code_keep_their_form(tmp_path: Path) -> None:
    body = """<main><ul><li>one<li><p>two</p><ul><li>three</ul></ul><ol start=3><li>x<li>y</ol>
    <table><tr><th>Year<th>Otters<tr><td><p>1994</p><td>no<br>ne</table><p>a<br>b <b>c</b>d.</p>
    <pre><code>def f(x_y):
        return x_y</code></pre></main>"""
    code = "```\ndef f(x_y):\n        return x_y\n```"
    rows = "| Year | Otters |\n| 1994 | no ne |"
    assert page(tmp_path, body).text == f"- one\n- two\n\n  - three\n\n3. x\n4. y\n\n{rows}\n\na\nb cd.\n\n{code}"


def test_a_table_that_arranges_a_page_is_read_as_its_parts(tmp_path: Path) -> None:
    body = "<table><tr><td><h2>Left</h2><p>One.<p>Two.</td><td>Right</td></tr></table>"
    assert page(tmp_path, body).text == "## Left\n\nOne.\n\nTwo.\n\nRight"


def test_soft_hyphens_and_pronunciations_do_not_break_words(tmp_path: Path) -> None:
    body = "<p>Wasser&shy;qualit&auml;t <ruby>漢<rp>(<rt>かん<rp>)</rp>字<rt>じ</ruby>"
    assert page(tmp_path, body).text == "Wasserqualität 漢字"


def test_a_manual_keeps_all_of_its_main_part(tmp_path: Path) -> None:
    entries = "".join(f"<h2>f{n}</h2><pre>f{n}()</pre><ul><li>x: int</ul>" for n in range(9))
    text = page(tmp_path, f"<main>{entries}</main>").text
    assert text.count("x: int") == 9
    assert "f8()" in text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('<meta charset="iso-8859-1"><p>Grüße “so”'.encode("cp1252"), "Grüße “so”"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=KOI8-R"><p>Привет'.encode("koi8-r"), "Привет"),
        ('<?xml version="1.0" encoding="shift_jis"?><html><p>漢字</p></html>'.encode("cp932"), "漢字"),
        ("<html><p>Grüße, ihr Füchse, von überall</html>".encode("utf-16"), "Grüße, ihr Füchse, von überall"),
        ("<html><p>ordinary words of English</html>".encode("utf-16-le"), "ordinary words of English"),
        ("\ufeff<p>Grüße".encode(), "Grüße"),
        ('<meta charset="nosuch"><p>Grüße'.encode(), "Grüße"),
        ('<meta charset="punycode"><p>Grüße'.encode(), "Grüße"),
        ('<meta charset="hex"><p>Grüße'.encode(), "Grüße"),
        (b'<meta charset="utf-8"><p>one b\0ad byte \xff' + b" and much more text" * 20, "one b ad byte"),
    ],
)
def test_a_page_is_read_in_the_encoding_that_it_declares(tmp_path: Path, raw: bytes, text: str) -> None:
    assert page(tmp_path, raw).text.startswith(text)


def test_a_picture_that_is_called_html_is_binary(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as error:
        page(tmp_path, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 4)
    assert error.value.kind == "binary"


@pytest.mark.parametrize(
    "opening",
    ["<div>" * 100_000, "<b>x" * 1000, "<ul><li>x" * 100_000, "<table><tr><td>" * 5000, "<h1>" * 5000, "<pre>" * 5000],
    ids=lambda opening: str(opening)[:4],
)
def test_a_page_that_is_nested_too_deeply_keeps_its_text(tmp_path: Path, opening: str) -> None:
    doc = page(tmp_path, f"<script>unseen</script>{opening}<p>deep &amp; down<p>after")
    assert doc.text.endswith("deep & down\nafter")
    assert "unseen" not in doc.text


@pytest.mark.parametrize(
    "huge",
    [
        f"<img src='data:image/png;base64,{'A' * 11_000_000}'>",
        f"<p {' '.join(f'a{n}=1' for n in range(100_000))}>",
        f"<script>{'word ' * 2_200_000}</script>",
        f"<!-- {'word ' * 2_200_000} -->",
    ],
    ids=["picture", "attributes", "script", "comment"],
)
def test_what_follows_something_huge_is_read(tmp_path: Path, huge: str) -> None:
    assert page(tmp_path, f"<p>before</p>{huge}<p>after").text.split() == ["before", "after"]


@pytest.mark.parametrize(
    "stray", ['<p class="a" ">', "<p title=it's>", '<!-- <p lang=x "> -->', '<script>if(a<b)c="\\"";</script>']
)
def test_a_stray_quote_swallows_nothing(tmp_path: Path, stray: str) -> None:
    text = page(tmp_path, f"<p>before {stray} here{' words <b>in</b> between' * 500} <p class='x'>after").text
    assert text.count("words in between") == 500
    assert text.endswith("after")


def test_a_stray_quote_swallows_nothing_of_a_page_without_a_tree(tmp_path: Path) -> None:
    text = page(tmp_path, f'{"<b>" * 300}before <p class=\'a\' "> between <p title="x">after').text
    assert text.split() == ["before", "between", "after"]


def test_a_page_without_a_tree_whose_head_never_ends_has_its_text(tmp_path: Path) -> None:
    assert page(tmp_path, f"<head><title>Title</title>{'<b>' * 300}words").text == "words"


def test_a_page_of_too_many_elements_has_its_visible_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_pages, "MOST_ELEMENTS", 10)
    text = page(tmp_path, ARTICLE).text
    assert "Fish came back" in text
    assert "Copyrightnotice" in text
    assert "Sportsection" not in text


def test_entities_that_a_page_declares_are_not_resolved(tmp_path: Path) -> None:
    secret = source(tmp_path, "secret.txt", "secretword")
    declared = f"<!DOCTYPE html [<!ENTITY a SYSTEM 'file://{secret.path}'><!ENTITY b 'bomb'>]>"
    assert "secretword" not in page(tmp_path, f"{declared}<p>&a;&b; words").text


def test_control_characters_do_not_hide_the_main_text(tmp_path: Path) -> None:
    assert page(tmp_path, ARTICLE.replace("Fish", "\x01\x0bFish")).text.count("came back first") == 1


def test_a_tag_that_is_no_name_does_not_hide_the_main_text(tmp_path: Path) -> None:
    assert "Fish came back" in page(tmp_path, ARTICLE.replace("Fish", '<et="utf-8">Fish')).text


def test_an_extraction_that_fails_leaves_the_visible_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(html_pages, "_extraction", lambda: fails)
    assert "Fish came back first" in page(tmp_path, ARTICLE).text


def test_reading_a_page_logs_nothing_to_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("trafilatura").propagate = False
    try:
        page(tmp_path, "<p>w")
        page(tmp_path, "")
    finally:
        logging.getLogger("trafilatura").propagate = True
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("package", ["lxml", "trafilatura"])
def test_the_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    html_pages._extraction.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"reading HTML .* 'denslice\[files\]'"):
        page(tmp_path, ARTICLE)


# Saved pages


def test_a_saved_page_is_its_part_of_html(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Snapshot-Content-Location"] = "https://post.example/saved"
    message.set_content(ARTICLE, subtype="html", cte="quoted-printable")
    message.make_related()
    message.add_related(b"GIF89a", "image", "gif")
    doc = one(read_mhtml(source(tmp_path, "a.mhtml", bytes(message))))
    assert "Fish came back first" in doc.text
    assert (doc.title, doc.meta["url"]) == ("Otters return", "https://post.example/saved")


def test_a_saved_page_without_html_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no part of HTML"):
        list(read_mhtml(source(tmp_path, "a.mht", "Subject: x\n\nwords")))


# Books

CONTAINER = "<container><rootfiles><rootfile full-path='OPS/book.opf'/></rootfiles></container>"
PACKAGE = """<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>The  River</dc:title><dc:creator>Jane Doe</dc:creator><dc:creator>Max Roe</dc:creator>
<dc:date>2010-05-06T00:00:00Z</dc:date><dc:language>en-US</dc:language></metadata>
<manifest><item id="b" href="text/two%20b.xhtml"/><item id="a" href="text/one.xhtml#start"/>
<item id="nav" href="nav.xhtml" properties="nav"/><item id="css" href="style.css"/></manifest>
<spine><itemref idref="nav"/><itemref idref="a"/><itemref idref="b"/><itemref idref="a"/><itemref idref="no"/></spine>
</package>"""
XHTML = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body><h1>{}</h1><p>{}</p></body></html>'
BOOK: dict[str, bytes | str] = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OPS/book.opf": PACKAGE,
    "OPS/nav.xhtml": XHTML.format("Contents", "The list of chapters"),
    "OPS/text/two b.xhtml": XHTML.format("The mouth", "It ends &mdash; in the sea."),
    "OPS/text/one.xhtml": XHTML.format("The source", "It rises in<a id='p2'/> the hills."),
}


def book(folder: Path, changed: dict[str, bytes | str]) -> SourceFile:
    """A book with some of its entries changed."""
    return source(folder, "river.epub", zipped(BOOK | changed))


def test_a_book_is_its_chapters_in_the_order_of_the_spine(tmp_path: Path) -> None:
    doc = one(read_epub(book(tmp_path, {})))
    assert doc.text == "# The source\n\nIt rises in the hills.\n\n# The mouth\n\nIt ends — in the sea."
    assert doc.title == "The River"
    assert doc.meta == {"author": ["Jane Doe", "Max Roe"], "date": "2010-05-06", "language": "en"}


def test_a_book_without_a_container_is_read(tmp_path: Path) -> None:
    entries = {name: contents for name, contents in BOOK.items() if not name.startswith("META-INF")}
    assert "hills" in one(read_epub(source(tmp_path, "a.epub", zipped(entries)))).text


def test_a_chapter_that_is_missing_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    entries = {name: contents for name, contents in BOOK.items() if "two" not in name}
    file = source(tmp_path, "a.epub", zipped(entries))
    assert "hills" in one(read_epub(file)).text
    assert [(problem.kind, "two b.xhtml" in problem.problem) for problem in file.problems] == [
        ("damaged chapter", True)
    ]


def test_strict_reading_refuses_a_book_with_a_damaged_chapter(tmp_path: Path) -> None:
    file = book(tmp_path, {"OPS/text/one.xhtml": bytes(100)})
    file.strict = True
    with pytest.raises(InputError, match=r"one\.xhtml"):
        list(read_epub(file))


def encryption(name: str) -> dict[str, bytes | str]:
    """The entry that says that another one is encrypted."""
    return {"META-INF/encryption.xml": f"<encryption><x:CipherReference xmlns:x='x' URI='{name}'/></encryption>"}


def test_a_book_with_drm_is_encrypted(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as error:
        list(read_epub(book(tmp_path, encryption("OPS/text/two%20b.xhtml"))))
    assert error.value.kind == "encrypted file"


def test_a_book_with_encrypted_fonts_is_read(tmp_path: Path) -> None:
    assert "hills" in one(read_epub(book(tmp_path, encryption("OPS/fonts/serif.otf")))).text


def test_a_book_of_pictures_is_reported(tmp_path: Path) -> None:
    pictures: dict[str, bytes | str] = {
        name: "<html><body><img src='1.png'/></body></html>" for name in BOOK if "text/" in name
    }
    with pytest.raises(UnreadableError) as error:
        list(read_epub(book(tmp_path, pictures)))
    assert error.value.kind == "book without text"


BOMB = "<!DOCTYPE p [<!ENTITY a 'otter'>{}]>".format(
    "".join(f"<!ENTITY {this} '{f'&{last};' * 20}'>" for last, this in zip("abcdefgh", "bcdefghi", strict=True))
)


@pytest.mark.parametrize("place", ["text", "attribute"])
def test_an_entity_bomb_in_the_package_does_not_go_off(tmp_path: Path, place: str) -> None:
    bomb = PACKAGE.replace('<?xml version="1.0"?>', BOMB.replace("DOCTYPE p", "DOCTYPE package"))
    bomb = bomb.replace("Jane Doe", "&i;") if place == "text" else bomb.replace('href="style.css"', 'href="&i;"')
    with pytest.raises(UnreadableError) as error:
        list(read_epub(book(tmp_path, {"OPS/book.opf": bomb})))
    assert error.value.kind == "damaged file"


def test_an_entity_does_not_read_other_files(tmp_path: Path) -> None:
    secret = source(tmp_path, "secret.txt", "secretword")
    declared = f"<!DOCTYPE package [<!ENTITY a SYSTEM 'file://{secret.path}'>]>"
    package = PACKAGE.replace('<?xml version="1.0"?>', declared).replace("The  River", "River &a;")
    assert "secretword" not in str(one(read_epub(book(tmp_path, {"OPS/book.opf": package}))))


@pytest.mark.parametrize(
    "changed",
    [
        {"OPS/book.opf": ""},
        {"OPS/book.opf": "not XML"},
        {"META-INF/container.xml": bytes(50)},
        {"META-INF/encryption.xml": "<"},
        {"OPS/book.opf": "<package/>"},
    ],
    ids=repr,
)
def test_a_book_whose_parts_are_broken_is_an_error(tmp_path: Path, changed: dict[str, bytes | str]) -> None:
    with pytest.raises(UnreadableError):
        list(read_epub(book(tmp_path, changed)))


def test_a_zip_in_the_place_of_a_chapter_is_a_damaged_chapter(tmp_path: Path) -> None:
    inner = zipped({"a": "words " * 1000, "b": bytes(range(256)) * 10})
    file = book(tmp_path, {"OPS/text/one.xhtml": zipped({"inner.zip": inner})})
    assert "sea" in one(read_epub(file)).text
    assert [problem.kind for problem in file.problems] == ["damaged chapter"]


def test_a_book_that_is_a_zip_of_a_book_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no package file"):
        list(read_epub(source(tmp_path, "a.epub", zipped({"inner.epub": zipped(BOOK)}))))


def test_chapters_stay_within_the_zip(tmp_path: Path) -> None:
    source(tmp_path, "secret.xhtml", "secretword")
    address = f"../../../../../..{tmp_path}/secret.xhtml"
    file = book(tmp_path, {"OPS/book.opf": PACKAGE.replace("text/one.xhtml", address)})
    assert "secretword" not in one(read_epub(file)).text
    assert [problem.kind for problem in file.problems] == ["damaged chapter"]


# Messages


def letter(subject: str = "Grüße vom Fluss", text: str = "The otters are back.\n") -> EmailMessage:
    """A message with its usual headers."""
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = "Jürgen Groß <jg@example.org>"
    message["To"] = "Ann <ann@example.org>, bob@example.org"
    message["Date"] = "Tue, 05 Mar 2024 10:00:00 +0100"
    message["Message-ID"] = "<1@example.org>"
    message.set_content(text)
    return message


def mail(folder: Path, raw: bytes | str) -> Doc:
    """The document of a message."""
    return one(read_eml(source(folder, "a.eml", raw)))


def test_a_message_has_its_subject_text_and_people(tmp_path: Path) -> None:
    doc = mail(tmp_path, bytes(letter()))
    assert (doc.title, doc.text) == ("Grüße vom Fluss", "The otters are back.")
    assert doc.meta == {
        "author": "Jürgen Groß",
        "from": "jg@example.org",
        "to": ["ann@example.org", "bob@example.org"],
        "date": "2024-03-05T09:00:00+00:00",
    }


def test_attachments_are_named_and_not_read(tmp_path: Path) -> None:
    message = letter()
    message.add_attachment("the secret plan", filename="plän.txt")
    message.add_attachment(b"%PDF", "application", "pdf", filename="report.pdf")
    doc = mail(tmp_path, bytes(message))
    assert doc.text == "The otters are back."
    assert doc.meta["attachments"] == ["plän.txt", "report.pdf"]


def test_of_alternatives_the_plain_text_is_read(tmp_path: Path) -> None:
    message = letter()
    message.add_alternative("<p>The <b>bold</b> otters</p>", subtype="html")
    assert mail(tmp_path, bytes(message)).text == "The otters are back."


def test_html_is_read_where_the_plain_text_is_blank(tmp_path: Path) -> None:
    message = letter(text=" \n")
    message.add_alternative("<h2>News</h2><style>x</style><p>The <b>bold</b> otters</p>", subtype="html")
    assert mail(tmp_path, bytes(message)).text == "## News\n\nThe bold otters"


def test_a_footer_in_plain_text_does_not_replace_html(tmp_path: Path) -> None:
    parts = "Content-Type: text/html\n\n<p>The otters\n--x\nContent-Type: text/plain\n\nTo unsubscribe"
    doc = mail(tmp_path, f"Content-Type: multipart/mixed; boundary=x\n\n--x\n{parts}\n--x--\n")
    assert doc.text == "The otters\n\nTo unsubscribe"


@pytest.mark.parametrize(
    ("charset", "raw"),
    [
        ("iso-8859-1", "Grüße".encode("latin-1")),
        ("utf-8", "Grüße".encode()),
        ("x-unknown", "Grüße".encode()),
        ("unknown-8bit", "Grüße".encode()),
        ('"', "Grüße".encode()),
        ("utf-16", "Grüße".encode("utf-16")),
        ("utf-16le", "Grüße".encode("utf-16-le")),
        ("us-ascii", "Grüße".encode("latin-1")),
        ("utf-8", "Grüße".encode("latin-1") + b" an die Freunde, die am Flu\xdf gewartet haben"),
    ],
)
def test_a_message_is_read_in_its_charset_or_the_likely_one(tmp_path: Path, charset: str, raw: bytes) -> None:
    headers = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n\n"
    assert mail(tmp_path, headers.encode() + base64.encodebytes(raw)).text.startswith("Grüße")


@pytest.mark.parametrize(
    ("header", "subject"),
    [
        (b"=?utf-8?q?Gr=C3=BC?= =?utf-8?q?=C3=9Fe?=", "Grüße"),
        (b"=?utf-8?b?R3LDvMOf?=\n =?utf-8?b?ZQ==?=", "Grüße"),
        ("Grüße".encode(), "Grüße"),
        ("Grüße".encode("latin-1"), "Grüße"),
        (b"=?nosuch?q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
        (b"C:\\users =?utf-8?q?Gr=C3=BC=C3=9Fe?=", "C:\\users Grüße"),
        (b"=?utf-8?b?a?= broken", "=?utf-8?b?a?= broken"),
        (b"=?utf-8?q?=ED=A0=80?= half", "��� half"),
        (b"", ""),
        (b"two\n lines\n\tthree", "two lines three"),
    ],
)
def test_a_subject_is_decoded(tmp_path: Path, header: bytes, subject: str) -> None:
    assert mail(tmp_path, b"Subject: " + header + b"\n\nwords").title == subject


@pytest.mark.parametrize(
    "headers",
    [
        "",
        "Date: yesterday\nFrom: \nTo: ,,\n",
        "Date: 99 Foo 20204 99:99:99 +9999\nFrom: <\nTo: " + "(" * 5000 + "\n",
        "Date: Fri, 31 Dec 9999 23:00:00 -2300\nFrom: @@@\n",
        "Content-Type: ;;;=;text\nContent-Transfer-Encoding: base65\n",
        "Content-Type: text/plain; charset*=x'y; charset*0*=z\n",
        "Content-Type: text/plain; charset*9999999999=x\n",
        "Content-Type: multipart/mixed\n",
        "Content-Type: multipart/mixed; boundary=\n",
    ],
    ids=repr,
)
def test_a_message_with_missing_or_malformed_headers_has_its_text(tmp_path: Path, headers: str) -> None:
    doc = mail(tmp_path, f"Subject: x\n{headers}\nThe words")
    assert doc.text == "The words"
    assert "date" not in doc.meta


def test_parameters_that_python_cannot_sort_are_a_malformed_message(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as error:
        mail(tmp_path, "Content-Type: multipart/mixed; boundary*=x; boundary*0*=y\n\n--y\n\nwords")
    assert error.value.kind == "damaged file"


def test_a_part_that_is_no_text_is_reported(tmp_path: Path) -> None:
    headers = "Subject: x\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\n"
    file = source(tmp_path, "a.eml", headers.encode() + base64.encodebytes(bytes(range(256)) * 4))
    assert one(read_eml(file)).text == ""
    assert [(problem.kind, problem.place) for problem in file.problems] == [("unreadable part", "a.eml")]


@pytest.mark.parametrize("depth", [100, 1000, 100_000])
def test_parts_that_are_nested_deeply_are_read_or_damaged(tmp_path: Path, depth: int) -> None:
    opened = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(depth))
    raw = f"Subject: deep\n{opened}Content-Type: text/plain\n\nThe words\n"
    if depth == 100:
        assert mail(tmp_path, raw).text == "The words"
        return
    with pytest.raises(UnreadableError, match="nested") as error:
        mail(tmp_path, raw)
    assert error.value.kind == "damaged file"


def test_a_binary_file_that_is_called_eml_is_binary(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as error:
        mail(tmp_path, b"\xd0\xcf\x11\xe0" + bytes(range(256)) * 4)
    assert error.value.kind == "binary"


def test_a_message_saved_in_utf_16_is_read(tmp_path: Path) -> None:
    assert mail(tmp_path, "Subject: Grüße\n\nThe words".encode("utf-16")).title == "Grüße"


# Mailboxes

FIRST, NEXT = b"From jg@example.org Tue Mar  5 10:00:00 2024\n", b"\nFrom - Wed Mar 06 10:00:00 +0000 2024\n"


def mailbox(folder: Path, raw: bytes) -> SourceFile:
    """A mailbox."""
    return source(folder, "a.mbox", raw)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_messages_of_a_mailbox_are_read_without_ids(tmp_path: Path, end: bytes) -> None:
    raw = (
        FIRST + bytes(letter("one", "1\n")) + NEXT + bytes(letter("two", "2\n")) + NEXT + bytes(letter("three", "3\n"))
    )
    docs = list(read_mbox(mailbox(tmp_path, raw.replace(b"\n", end))))
    assert [(doc.id, doc.title, doc.text) for doc in docs] == [("", "one", "1"), ("", "two", "2"), ("", "three", "3")]
    assert docs[2].meta["author"] == "Jürgen Groß"


def test_lines_that_begin_with_from_are_restored_and_start_no_message(tmp_path: Path) -> None:
    body = b"Subject: one\n\n>From here\n>>From there\n\nFrom now on, 3:00 is late.\n\n> From\n"
    (doc,) = read_mbox(mailbox(tmp_path, FIRST + body))
    assert doc.text == "From here\n>From there\n\nFrom now on, 3:00 is late.\n\n> From"


def test_a_mailbox_without_dates_is_read(tmp_path: Path) -> None:
    raw = b"From nobody\nSubject: one\n\n1\n\nFrom nobody\nSubject: two\n\n2\n"
    assert [doc.title for doc in read_mbox(mailbox(tmp_path, raw))] == ["one", "two"]


def test_an_empty_mailbox_has_no_messages(tmp_path: Path) -> None:
    assert list(read_mbox(mailbox(tmp_path, b"\n\n"))) == []


def test_what_is_no_mailbox_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="not a mailbox"):
        list(read_mbox(mailbox(tmp_path, b"\x89PNG\r\n" + bytes(100))))


def test_messages_that_are_too_large_or_malformed_are_reported_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailboxes, "LARGEST_MESSAGE", 200)
    malformed = b"Content-Type: multipart/mixed; boundary*=x; boundary*0*=y\n\n--y\n\nwords\n"
    messages = [b"Subject: one\n\n1\n", b"Subject: big\n\n" + b"words " * 100, malformed, b"Subject: last\n\n4\n"]
    file = mailbox(tmp_path, FIRST + NEXT.join(message + b"\n" for message in messages))
    assert [doc.title for doc in read_mbox(file)] == ["one", "last"]
    assert [(problem.kind, problem.place) for problem in file.problems] == [
        ("large message", "a.mbox:7"),
        ("damaged message", "a.mbox:12"),
    ]


def test_a_mailbox_is_read_as_a_stream(tmp_path: Path) -> None:
    messages = read_mbox(mailbox(tmp_path, FIRST + (bytes(letter("one")) + NEXT) * 3000))
    assert next(iter(messages)).title == "one"


def test_a_message_of_too_many_lines_and_boundaries_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail_messages, "MOST_STEPS", 100)
    with pytest.raises(UnreadableError, match="too many nested parts"):
        mail(tmp_path, "Content-Type: multipart/mixed; boundary=x\n" + "\n" * 101)


@pytest.mark.parametrize("read", [read_html, read_epub, read_eml, read_mhtml, read_mbox])
def test_files_cut_anywhere_are_read_or_unreadable(tmp_path: Path, read: Callable[[SourceFile], Iterable[Doc]]) -> None:
    message = letter()
    message.add_alternative(ARTICLE, subtype="html")
    whole: dict[object, bytes] = {
        read_html: ARTICLE.encode(),
        read_epub: zipped(BOOK),
        read_mbox: FIRST + bytes(message),
    }
    raw = whole.get(read, bytes(message))
    kinds = {
        kind for end in range(0, len(raw), len(raw) // 20) for kind in problems(read, source(tmp_path, "a", raw[:end]))
    }
    assert kinds <= {"damaged file"}


def problems(read: Callable[[SourceFile], Iterable[Doc]], file: SourceFile) -> list[str]:
    """The kinds of problems that keep a file from being read."""
    try:
        list(read(file))
    except UnreadableError as error:
        return [error.kind]
    return []
