"""Files as people and attackers send them."""

import io
import zipfile

import docx
from PIL import Image


def image(form: str = "PNG", size: tuple[int, int] = (40, 20), mode: str = "RGB", **options: object) -> bytes:
    """Return a picture."""
    Image.new(mode, size, "red" if mode == "RGB" else None).save(out := io.BytesIO(), form, **options)
    return out.getvalue()


def photo() -> bytes:
    """Return a photograph that lies on its side, with a place, a comment and a camera in it."""
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "SecretCam"
    return image("JPEG", (3000, 2000), exif=exif, comment=b"SecretComment")


def document(*paragraphs: str) -> bytes:
    """Return a Word document with a table."""
    made = docx.Document()
    for paragraph in paragraphs:
        made.add_paragraph(paragraph)
    table = made.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Total", "42"
    made.save(out := io.BytesIO())
    return out.getvalue()


def zip_bomb() -> bytes:
    """Return a Word document that has 120 MB once it is unpacked."""
    out = io.BytesIO(document("Hi"))
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/more.xml", b"\0" * 120_000_000)
    return out.getvalue()


def sheet() -> bytes:
    """Return a workbook with one sheet, as small as Excel takes it."""
    names = "http://schemas.openxmlformats.org"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{names}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{names}/package/2006/relationships"><Relationship Id="r1" Type='
        f'"{names}/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{names}/spreadsheetml/2006/main" xmlns:r='
        f'"{names}/officeDocument/2006/relationships"><sheets><sheet name="Q1" sheetId="1" r:id="r1"/></sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{names}/package/2006/relationships"><Relationship Id="r1"'
        f' Type="{names}/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{names}/spreadsheetml/2006/main"><sheetData><row r="1">'
        '<c r="A1" t="inlineStr"><is><t>North, "new"</t></is></c><c r="B1"><v>42</v></c></row></sheetData></worksheet>',
    }
    with zipfile.ZipFile(out := io.BytesIO(), "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def pdf(text: str = "") -> bytes:
    """Return a PDF of one page, with *text* on it."""
    drawn = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", list[int]()
    for n, each in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%s\nendobj\n" % (n, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(places) + 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1) + table + end
