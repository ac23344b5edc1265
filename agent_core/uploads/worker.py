"""The work on one file that a stranger sent: images are encoded again, documents are read as text.

It is loaded by its path in a confined process, one per file, so it imports nothing of Parley, and of libraries only
those that a kind of files needs. A job is the file; its result a line of JSON `{mime, text?, pages?}`, and after it the
new image. Errors are sentences that go on after "The file".
"""

import codecs
import importlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

LONG_EDGE = 1568
"""Pixels: models see no more of an image."""
MAX_PIXELS = 40_000_000
MAX_IMAGE = 3_700_000
"""Bytes: with Base64 around it under 5 MB, which is what one image may have at the strictest vendor."""
MAX_TEXT = 100_000
"""Characters of a document's text: as many as a message may have."""
MAX_READ_PAGES = 1_000
MAX_UNZIPPED, MAX_ENTRIES = 100_000_000, 10_000
"""Bytes and files in an office document once it is unpacked."""
_FORMATS_IN_USE = ("Png", "Jpeg", "WebP", "Gif", "Mpo", "Tiff")
"""Those of Pillow's modules; Exif is read as TIFF is."""
_ENCODINGS = ("ascii", "cp437", "cp1252", "latin-1", "utf-8", "utf-16", "utf-16-be", "utf-16-le")
"""What names in archives and texts in documents are written in."""
_QUALITIES = (85, 70, 50)
Taken = tuple[dict[str, Any], bytes]


class NotTaken(Exception):
    """The file is not taken; the message goes on after "The file"."""


def prepared(reading: str) -> Callable[[bytes], tuple[bool, bytes]]:
    """Return what reads files of one *reading*; all that it needs of the disk is in memory then."""
    for name in _ENCODINGS:
        codecs.lookup(name)
    match reading:
        case "image":
            read = _images()
        case "pdf":
            read = _pdfs()
        case "docx":
            read = _documents()
        case _:
            read = _sheets()

    def take(data: bytes) -> tuple[bool, bytes]:
        try:
            about, left = read(data)
        except NotTaken as error:
            return False, str(error).encode()
        except MemoryError:
            return False, b"takes too much memory to be read."
        except Exception as error:  # noqa: BLE001 - what a damaged file raises in a library is the file's fault
            return False, f"is damaged, or not what its name says ({type(error).__name__}).".encode()
        return True, json.dumps(about).encode() + b"\n" + left

    return take


def _images() -> Callable[[bytes], Taken]:
    from PIL import Image, ImageOps  # noqa: PLC0415

    for name in _FORMATS_IN_USE:
        importlib.import_module(f"PIL.{name}ImagePlugin")
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    formats = ("PNG", "JPEG", "WEBP", "GIF")

    def read(data: bytes) -> Taken:
        try:
            image = Image.open(io.BytesIO(data), formats=formats)
            own = image.format
            image.thumbnail((LONG_EDGE, LONG_EDGE))
            image = ImageOps.exif_transpose(image)
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            raise NotTaken(f"is an image of more than {MAX_PIXELS // 1_000_000} megapixels.") from None
        has_alpha = "A" in image.getbands() or "transparency" in image.info
        image = image.convert("RGBA" if has_alpha else "RGB")
        image.info = {}  # no comment, profile or Exif goes on
        wanted = "PNG" if own in ("PNG", "GIF") else "JPEG" if own in ("JPEG", "MPO") else "WEBP"
        return _written(image, wanted)

    blank = io.BytesIO()
    Image.new("RGB", (2, 2)).save(blank, "JPEG", exif=Image.Exif())
    for name in formats:  # what is imported late is imported now
        Image.new("RGB", (2, 2)).save(each := io.BytesIO(), name)
        read(each.getvalue())
    read(blank.getvalue())
    return read


def _written(image: Any, wanted: str) -> Taken:
    """Return *image* in the format that is *wanted*, or smaller as JPEG until it has few enough bytes."""
    if wanted == "PNG":
        image.save(out := io.BytesIO(), "PNG")
        if out.tell() <= MAX_IMAGE:
            return {"mime": "image/png"}, out.getvalue()
        wanted = "JPEG"
    if wanted == "JPEG" and image.mode == "RGBA":
        white = image.copy()
        white.paste((255, 255, 255), (0, 0, *image.size))
        white.paste(image, mask=image.getchannel("A"))
        image = white.convert("RGB")
    while True:
        for quality in _QUALITIES:
            image.save(out := io.BytesIO(), wanted, quality=quality)
            if out.tell() <= MAX_IMAGE:
                return {"mime": f"image/{wanted.lower()}"}, out.getvalue()
        image = image.resize((max(1, image.width * 3 // 4), max(1, image.height * 3 // 4)))


def _pdfs() -> Callable[[bytes], Taken]:
    import pypdfium2  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

    pypdfium2.PdfDocument.new()

    def read(data: bytes) -> Taken:
        try:
            pdf = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            if "password" in str(error).lower():
                raise NotTaken("is a PDF with a password; send it without one.") from None
            raise NotTaken("is no PDF that can be opened.") from None
        if not len(pdf):
            raise NotTaken("is a PDF without pages.")
        pages = min(len(pdf), MAX_READ_PAGES)
        texts = (pdf[n].get_textpage().get_text_range().strip() for n in range(pages))
        text = _bounded(f"[Page {n}]\n{page}" for n, page in enumerate(texts, 1) if page)
        return {"text": text or f"(A PDF of {len(pdf)} pages without text: they are pictures.)", "pages": len(pdf)}, b""

    return read


def _documents() -> Callable[[bytes], Taken]:
    import docx  # noqa: PLC0415
    from docx.table import Table  # noqa: PLC0415

    docx.Document().save(blank := io.BytesIO())

    def blocks(container: Any) -> Iterator[str]:
        for block in container.iter_inner_content():
            if isinstance(block, Table):
                for row in block.rows:
                    yield " | ".join(" ".join(cell.text.split()) for cell in row.cells)
            elif block.text.strip():
                yield block.text

    def read(data: bytes) -> Taken:
        _unzippable(data)
        return {"text": _bounded(blocks(docx.Document(io.BytesIO(data)))) or "(A document without text.)"}, b""

    read(blank.getvalue())
    return read


def _sheets() -> Callable[[bytes], Taken]:
    from python_calamine import CalamineWorkbook  # noqa: PLC0415

    def lines(book: Any) -> Iterator[str]:
        for name in book.sheet_names:
            yield f"[Sheet {name}]"
            for row in book.get_sheet_by_name(name).iter_rows():
                yield ",".join(_cell(value) for value in row)

    def read(data: bytes) -> Taken:
        _unzippable(data)
        return {"text": _bounded(lines(CalamineWorkbook.from_filelike(io.BytesIO(data))))}, b""

    return read


def _cell(value: Any) -> str:
    """Return a cell as CSV has it; whole numbers, which sheets keep as floats, without a fraction."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return '"' + text.replace('"', '""') + '"' if any(each in text for each in ',"\n\r') else text


def _unzippable(data: bytes) -> None:
    """Refuse an archive that would be too much once unpacked; what it says of itself is what is unpacked at most."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    if len(entries) > MAX_ENTRIES or sum(each.file_size for each in entries) > MAX_UNZIPPED:
        raise NotTaken(f"would have more than {MAX_UNZIPPED // 1_000_000} MB once it is unpacked.")


def _bounded(texts: Iterable[str]) -> str:
    """Return *texts* as lines, up to `MAX_TEXT` characters."""
    pieces, left = list[str](), MAX_TEXT
    for text in texts:
        if len(text) >= left:
            pieces.append(text[:left])
            pieces.append(f"[The rest is left out: this is the beginning, of {MAX_TEXT:,} characters.]")
            break
        pieces.append(text)
        left -= len(text) + 1
    return "\n".join(pieces)
