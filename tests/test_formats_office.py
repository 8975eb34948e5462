"""Word documents, slides and OpenDocument texts become documents, with all of their text in its order."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import docx
import odfdo
import pptx
import pytest
from pptx.util import Inches

from denslice.corpus.formats.odf_texts import read_odf
from denslice.corpus.formats.slides_pptx import read_pptx
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.spreadsheets import read_spreadsheet
from denslice.corpus.formats.word_docx import read_docx
from denslice.errors import UnreadableError
from denslice.records import Doc
from office_files import (
    odf_file,
    odf_xml,
    rezipped,
    slides_file,
    source,
    unzipped,
    word_file,
    zipped,
)

Reader = Callable[[SourceFile], Iterator[Doc]]
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def read(reader: Reader, file: SourceFile) -> Doc:
    (doc,) = reader(file)
    return doc


def unreadable(reader: Reader, file: SourceFile) -> UnreadableError:
    with pytest.raises(UnreadableError) as raised:
        list(reader(file))
    return raised.value


# Word


def test_a_word_document_becomes_markdown_in_its_order(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading("The engine", 0)
    document.add_heading("Its parts", 1)
    document.add_paragraph("A mill and\ta store.\nBoth are of brass.")
    document.add_paragraph("cogs", style="List Bullet")
    document.add_paragraph("axes", style="List Number")
    table = document.add_table(2, 2)
    for at, text in enumerate(("Part", "Count", "cog", "25\n000")):
        table.cell(at // 2, at % 2).text = text
    document.add_heading("Its  uses", 2)
    document.add_paragraph("")
    document.add_paragraph("Numbers.")
    document.save(str(path := tmp_path / "a.docx"))
    assert read(read_docx, SourceFile(path, "a.docx")).text == (
        "# The engine\n\n# Its parts\n\nA mill and\ta store.\nBoth are of brass.\n\n- cogs\n- axes\n\n"
        "Part | Count\ncog | 25 000\n\n## Its uses\n\nNumbers."
    )


def test_the_properties_of_a_word_document_are_its_metadata(tmp_path: Path) -> None:
    document = docx.Document()
    properties = document.core_properties
    properties.title, properties.author, properties.language = "Notes", "Ada Lovelace", "en-GB"
    properties.created = datetime(1843, 9, 1, 10, 30, tzinfo=UTC)
    document.save(str(path := tmp_path / "a.docx"))
    doc = read(read_docx, SourceFile(path, "a.docx"))
    assert doc.title == "Notes"
    assert doc.meta == {"author": "Ada Lovelace", "date": "1843-09-01T10:30:00Z", "language": "en-GB"}


def test_damage_to_the_properties_does_not_keep_a_document_from_being_read(tmp_path: Path) -> None:
    raw = zipped(unzipped(word_file("words")) | {"docProps/core.xml": "<no XML"})
    doc = read(read_docx, source(tmp_path, "a.docx", raw))
    assert (doc.text, doc.title, doc.meta) == ("words", "", {})


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<w:sdt><w:sdtContent><w:p><w:r><w:t>in a control</w:t></w:r></w:p></w:sdtContent></w:sdt>", "in a control"),
        ("<w:p><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins></w:p>", "inserted"),
        ("<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>", "kept"),
        ("<w:p><w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:r><w:t>stays</w:t></w:r></w:p>", "stays"),
        ("<w:p><w:hyperlink><w:r><w:t>a link</w:t></w:r></w:hyperlink></w:p>", "a link"),
        ("<w:p><w:fldSimple w:instr='DATE'><w:r><w:t>today</w:t></w:r></w:fldSimple></w:p>", "today"),
        ("<w:p><w:pPr><w:tabs><w:tab w:pos='9'/></w:tabs></w:pPr><w:r><w:t>flush</w:t></w:r></w:p>", "flush"),
        ("<w:p><w:r><w:t>ready</w:t><w:noBreakHyphen/><w:t>made</w:t><w:softHyphen/></w:r></w:p>", "ready-made"),
        (
            "<w:p><w:r><w:t>around</w:t><w:pict><w:txbxContent><w:p><w:r><w:t>in a box</w:t></w:r></w:p>"
            "</w:txbxContent></w:pict></w:r></w:p>",
            "around\n\nin a box",
        ),
        ("<w:p><w:pPr><w:outlineLvl w:val='2'/></w:pPr><w:r><w:t>own level</w:t></w:r></w:p>", "### own level"),
        (
            "<w:p><w:pPr><w:pStyle w:val='ListBullet'/><w:numPr><w:numId w:val='0'/></w:numPr></w:pPr>"
            "<w:r><w:t>no item</w:t></w:r></w:p>",
            "no item",
        ),
        (
            "<w:tbl><w:tr><w:tc><w:p><w:pPr><w:pStyle w:val='Heading2'/></w:pPr><w:r><w:t>framed</w:t></w:r></w:p>"
            "<w:p><w:r><w:t>text</w:t></w:r></w:p></w:tc></w:tr></w:tbl>",
            "## framed\n\ntext",
        ),
    ],
)
def test_text_is_read_wherever_word_puts_it(tmp_path: Path, xml: str, text: str) -> None:
    assert read(read_docx, source(tmp_path, "a.docx", word_file("First.", xml=xml))).text == f"First.\n\n{text}"


def test_a_text_box_that_is_stored_for_new_and_old_programs_is_read_once(tmp_path: Path) -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    both = f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
    space = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    xml = f"<w:p><w:r><mc:AlternateContent {space}>{both}</mc:AlternateContent></w:r></w:p>"
    assert read(read_docx, source(tmp_path, "a.docx", word_file(xml=xml))).text == "boxed"


def test_a_style_that_is_based_on_a_heading_is_one_and_circles_end(tmp_path: Path) -> None:
    document = docx.Document()
    style = document.styles.add_style("Chapter", 1)
    style.base_style = document.styles["Heading 3"]
    one, two = document.styles.add_style("One", 1), document.styles.add_style("Two", 1)
    one.base_style, two.base_style = two, one
    document.add_paragraph("Opening", style="Chapter")
    document.add_paragraph("turning", style="One")
    document.save(str(path := tmp_path / "a.docx"))
    assert read(read_docx, SourceFile(path, "a.docx")).text == "### Opening\n\nturning"


def test_a_footnote_follows_its_paragraph(tmp_path: Path) -> None:
    xml = '<w:p><w:r><w:t>Claim</w:t><w:footnoteReference w:id="2"/></w:r></w:p><w:p><w:r><w:t>Next</w:t></w:r></w:p>'
    note = f'<w:footnotes {W}><w:footnote w:id="2"><w:p><w:r><w:t>Proof</w:t></w:r></w:p></w:footnote></w:footnotes>'
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    relation = f'<Relationship Id="n" Type="{kind}" Target="footnotes.xml"/></Relationships>'
    raw = rezipped(word_file(xml=xml), "word/_rels/document.xml.rels", "</Relationships>", relation)
    raw = zipped(unzipped(raw) | {"word/footnotes.xml": note})
    assert read(read_docx, source(tmp_path, "a.docx", raw)).text == "Claim\n\nProof\n\nNext"


def test_a_document_with_backslashes_and_other_capitals_in_its_names_is_read(tmp_path: Path) -> None:
    entries = {name.replace("/", "\\").upper(): raw for name, raw in unzipped(word_file("words")).items()}
    assert read(read_docx, source(tmp_path, "a.docx", zipped(entries))).text == "words"


def test_a_document_that_names_an_image_it_lacks_is_read(tmp_path: Path) -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/image"
    relation = f'<Relationship Id="i" Type="{kind}" Target="NULL"/></Relationships>'
    raw = rezipped(word_file("words"), "word/_rels/document.xml.rels", "</Relationships>", relation)
    assert read(read_docx, source(tmp_path, "a.docx", raw)).text == "words"


def test_strict_office_open_xml_is_read(tmp_path: Path) -> None:
    entries = unzipped(word_file("words"))
    for name, raw in entries.items():
        strict = raw.replace(b"http://schemas.openxmlformats.org/officeDocument/2006", b"http://purl.oclc.org/ooxml/o")
        entries[name] = strict.replace(b"http://schemas.openxmlformats.org/wordprocessingml", b"http://purl.oclc.org/w")
    assert read(read_docx, source(tmp_path, "a.docx", zipped(entries))).text == "words"


def test_a_compressed_word_document_is_read(tmp_path: Path) -> None:
    assert read(read_docx, source(tmp_path, "a.docx.gz", gzip.compress(word_file("packed")))).text == "packed"


# Slides


def test_each_slide_is_a_page_with_its_title_its_text_and_its_notes(tmp_path: Path) -> None:
    slides = pptx.Presentation()
    first = slides.slides.add_slide(slides.slide_layouts[1])
    first.placeholders[1].text = "A point\nAnother point"
    first.shapes.title.text = "Compilers"
    first.notes_slide.notes_text_frame.text = "Tell the story of the moth."
    slides.slides.add_slide(slides.slide_layouts[6])
    third = slides.slides.add_slide(slides.slide_layouts[5])
    third.shapes.title.text = "Machines"
    group = third.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "in a group"
    table = third.shapes.add_table(2, 2, 0, 0, Inches(4), Inches(1)).table
    for at, text in enumerate(("Name", "Year", "Mark I", "1944")):
        table.cell(at // 2, at % 2).text = text
    slides.save(str(path := tmp_path / "a.pptx"))
    assert read(read_pptx, SourceFile(path, "a.pptx")).text == (
        "## Compilers\n\nA point\nAnother point\n\nTell the story of the moth.\f\f"
        "## Machines\n\nin a group\n\nName | Year\nMark I | 1944"
    )


def test_slides_are_in_the_order_in_which_they_are_shown(tmp_path: Path) -> None:
    slides = pptx.Presentation(io.BytesIO(slides_file("one", "two")))
    listed = slides.slides._sldIdLst
    listed.insert(0, listed[1])
    slides.core_properties.title, slides.core_properties.author = "PowerPoint Presentation", "Grace Hopper"
    slides.save(str(path := tmp_path / "a.pptx"))
    doc = read(read_pptx, SourceFile(path, "a.pptx"))
    assert (doc.text, doc.title, doc.meta["author"]) == ("## two\f## one", "", "Grace Hopper")


def test_slide_numbers_and_footers_are_left_out(tmp_path: Path) -> None:
    shape = '<p:sp><p:nvSpPr><p:nvPr><p:ph type="{}"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p>'
    shapes = "".join(shape.format(kind, kind) + "</p:txBody></p:sp>" for kind in ("sldNum", "ftr", "dt", "body"))
    raw = rezipped(slides_file("Title"), "ppt/slides/slide1.xml", "</p:spTree>", f"{shapes}</p:spTree>")
    assert read(read_pptx, source(tmp_path, "a.pptx", raw)).text == "## Title\n\nbody"


def test_the_text_of_a_diagram_is_read(tmp_path: Path) -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData"
    relation = f'<Relationship Id="d" Type="{kind}" Target="../diagrams/data1.xml"/></Relationships>'
    raw = rezipped(slides_file("Title"), "ppt/slides/_rels/slide1.xml.rels", "</Relationships>", relation)
    space = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    data = f"<data {space}><a:p><a:r><a:t>Plan</a:t></a:r></a:p><a:p><a:r><a:t>Do</a:t></a:r></a:p></data>"
    raw = zipped(unzipped(raw) | {"ppt/diagrams/data1.xml": data})
    assert read(read_pptx, source(tmp_path, "a.pptx", raw)).text == "## Title\n\nPlan\nDo"


# OpenDocument


def test_an_opendocument_text_becomes_markdown_in_its_order(tmp_path: Path) -> None:
    table = odfdo.Table("T", width=2, height=2)
    table.set_values([["Part", "Count"], ["cog", "25"]])
    elements = [odfdo.Header(2, "Parts"), odfdo.Paragraph("A mill."), odfdo.List(["cogs", "axes"]), table]
    text = read(read_odf, source(tmp_path, "a.odt", odf_file("text", *elements))).text
    assert text == "## Parts\n\nA mill.\n\n- cogs\n- axes\n\nPart | Count\ncog | 25"


def test_the_properties_of_an_opendocument_text_are_its_metadata(tmp_path: Path) -> None:
    document = odfdo.Document("text")
    document.meta.title, document.meta.initial_creator = "Notes", "Ada Lovelace"
    document.meta.creation_date, document.meta.language = datetime(1843, 9, 1, 10, 30), "en-GB"
    document.save(path := tmp_path / "a.odt")
    doc = read(read_odf, SourceFile(path, "a.odt"))
    assert doc.title == "Notes"
    assert doc.meta == {"author": "Ada Lovelace", "date": "1843-09-01T10:30:00", "language": "en-GB"}


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<text:p>a<text:s text:c='2'/>b<text:tab/>c<text:line-break/>d</text:p>", "a  b\tc\nd"),
        ("<text:p>bold <text:span>and <text:a>linked</text:a></text:span> text</text:p>", "bold and linked text"),
        ("<text:section><text:p>in a section</text:p></text:section>", "in a section"),
        ("<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes><text:p>kept</text:p>", "kept"),
        ("<text:p>said<office:annotation><text:p>a comment</text:p></office:annotation> so</text:p>", "said so"),
        (
            "<text:p>Claim<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Proof</text:p>"
            "</text:note-body></text:note>.</text:p><text:p>Next</text:p>",
            "Claim.\n\nProof\n\nNext",
        ),
        (
            "<text:p>around<draw:frame><draw:text-box><text:p>in a box</text:p></draw:text-box></draw:frame></text:p>",
            "around\n\nin a box",
        ),
        ("<text:p>spaces<text:s text:c='999999999'/>end</text:p>", f"spaces{' ' * 1000}end"),
    ],
)
def test_text_is_read_wherever_opendocument_puts_it(tmp_path: Path, xml: str, text: str) -> None:
    raw = odf_xml(f"<office:text>{xml}</office:text>")
    assert read(read_odf, source(tmp_path, "a.odt", raw)).text == text


def test_opendocument_slides_are_pages(tmp_path: Path) -> None:
    frame = "<draw:frame{}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    title = frame.format(' presentation:class="title"', "Compilers")
    notes = f"<presentation:notes>{frame.format('', 'Tell a story.')}</presentation:notes>"
    slides = (
        f"<draw:page>{frame.format('', 'A point')}{title}{notes}</draw:page><draw:page/><draw:page>{title}</draw:page>"
    )
    raw = odf_xml(f"<office:presentation>{slides}</office:presentation>")
    text = read(read_odf, source(tmp_path, "a.odp", raw)).text
    assert text == "## Compilers\n\nA point\n\nTell a story.\f\f## Compilers"


def test_a_flat_opendocument_text_is_read(tmp_path: Path) -> None:
    content = unzipped(odf_xml("<office:text><text:h text:outline-level='1'>Parts</text:h></office:text>"))[
        "content.xml"
    ]
    meta = b"<office:meta><title>Notes</title><creation-date>1843-09-01</creation-date></office:meta><office:body>"
    raw = b"\xef\xbb\xbf<?xml version='1.0'?>\n" + content.replace(b"<office:body>", meta)
    doc = read(read_odf, source(tmp_path, "a.fodt", raw))
    assert (doc.text, doc.title, doc.meta) == ("# Parts", "Notes", {"date": "1843-09-01"})
    assert unreadable(read_odf, source(tmp_path, "b.fodt", raw[:-9])).kind == "damaged file"


def test_an_encrypted_opendocument_file_is_unreadable(tmp_path: Path) -> None:
    manifest = "<m><file-entry full-path='content.xml'><encryption-data/></file-entry></m>"
    raw = zipped(unzipped(odf_xml("")) | {"META-INF/manifest.xml": manifest})
    for reader, name in ((read_odf, "a.odt"), (read_spreadsheet, "a.ods")):
        assert unreadable(reader, source(tmp_path, name, raw)).kind == "encrypted file"
