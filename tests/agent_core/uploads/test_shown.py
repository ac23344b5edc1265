"""What models are shown of files that people sent."""

from agent_core.messages import File
from agent_core.providers.base import Readable, readable

WORD = File("file_1", "a.docx", "application/msword", 9, "blob_1")
PDF = File("file_2", "b.pdf", "application/pdf", 4, "blob_2", 3)
LONG = File("file_3", "c.pdf", "application/pdf", 4, "blob_3", 101)
DATA = {"blob_1": b"Words", "file_2": b"%PDF", "blob_2": b"Pages", "blob_3": b"Many pages"}


def test_a_text_stands_for_what_a_model_does_not_take():
    """Office files and long PDFs are their text, other PDFs themselves, or their text where no PDFs are taken."""
    assert list(readable((WORD, PDF, LONG), DATA)) == [
        "[File a.docx]\nWords",
        Readable("pdf", "application/pdf", b"%PDF", "b.pdf"),
        "[File c.pdf]\nMany pages",
    ]
    assert list(readable((PDF,), DATA, pdfs=False)) == ["[File b.pdf]\nPages"]
    assert list(readable((WORD,), {})) == ["[File a.docx (application/msword, 9 bytes): it is no longer stored]"]
