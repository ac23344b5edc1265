"""Images and documents that a person sends or a tool returns: the model gets their bytes, and always the same."""

import base64
import struct
import zlib
from dataclasses import replace
from itertools import pairwise

import pytest
from sqlalchemy import delete

from agent_core.channels import Inbound
from agent_core.events import StepFailed, StepStarted
from agent_core.messages import File, Text
from agent_core.store import quotas, sessions
from agent_core.testing import call, say, think
from agent_core.tools.functions import tool
from tests.agent_core.providers.contract.telling import by_text, extends
from tests.agent_core.stage import ANN, Stage

pytestmark = pytest.mark.sampled(3)

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n%%EOF\n"
NOTES = "Plain notes with ümlauts."


def png(shade: int) -> bytes:
    """Return an image of one pixel."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes([0, shade]))),
        (b"IEND", b""),
    ]
    packed = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


async def keep(stage: Stage, name: str, mime: str, data: bytes) -> File:
    """Store *data* for the stage's session and return the part that names it."""
    store = stage.core._store
    key = await store.read(lambda connection: sessions.find(connection, stage.session).session_key.key)
    return File(await store.write(quotas.put_blob, key, mime, data), name, mime, len(data))


async def send_files(stage: Stage, text: str, *files: File) -> None:
    inbound = Inbound(parts=(Text(text), *files), actor=ANN)
    assert (await stage.done((await stage.core.receive(stage.session, inbound)).run)).status == "completed"


def in_base64(data: bytes) -> bytes:
    return base64.b64encode(data)


async def test_a_model_without_vision_gets_names_for_pictures(scene, wire):
    """Of a picture it reads the name, and the log says so; one that sees gets its bytes, and each keeps its prefix."""
    seeing = replace(wire, vision=(wire.other,))
    stage = await scene(seeing, lambda _: [say("Well.")])
    image = await keep(stage, "dot.png", "image/png", png(7))
    await send_files(stage, "Look", image)
    for model in (wire.full_other, wire.full, wire.full_other):
        assert (await stage.play("Again", model=model)).status == "completed"
    asked = stage.line.models.asked
    assert [in_base64(png(7)) in each.raw for each in asked] == [False, True, False, True]
    assert [b"dot.png (image/png, " in each.raw and b"cannot see pictures" in each.raw for each in asked] == [
        True,
        False,
        True,
        False,
    ]
    assert [step.vision for step in await stage.said(StepStarted)] == [False, True, False, True]
    assert extends(asked[0], asked[2], wire.sent)
    assert extends(asked[1], asked[3], wire.sent)


async def test_files_of_a_person_reach_the_model(scene, wire):
    """An image, a document and a text in a message are sent as their bytes, the same in every later request."""
    script = by_text(Look=[[think("I see."), say("Seen.")]], Again=[[say("Still there.")]])
    stage = await scene(
        wire, lambda asked: script(asked) if asked.text in ("Look", "Again") else [think("I see."), say("Seen.")]
    )
    image = await keep(stage, "dot.png", "image/png", png(7))
    paper = await keep(stage, "paper.pdf", "application/pdf", PDF)
    notes = await keep(stage, "notes.txt", "text/plain", NOTES.encode())
    await send_files(stage, "Look", image, paper, notes)
    assert (await stage.play("Again")).status == "completed"
    sent = b"".join(stage.requests[0])
    assert in_base64(png(7)) in sent
    assert in_base64(PDF) in sent
    assert NOTES.encode() in sent
    assert b"paper.pdf" in sent
    before, after = stage.line.models.asked
    assert extends(before, after, wire.sent)
    assert await stage.said(StepFailed) == []


@pytest.mark.parametrize("mime", ["image/png", "application/pdf"])
async def test_files_that_a_tool_returns_reach_the_model(scene, wire, mime):
    """A tool may answer with an image or a document; the model gets its bytes beside the tool's words."""
    data = png(9) if mime == "image/png" else PDF
    files: list[File] = []

    @tool
    async def draw() -> tuple[Text, File]:
        """Draw something."""
        return (Text("Drawn."), files[0])

    steps = [[think("Draw."), call("draw")], [think("Nice."), call("draw")], [say("Look at that.")]]
    stage = await scene(wire, lambda asked: steps[min(asked.raw.count(b"Drawn."), 2)], tools=[draw])
    files.append(await keep(stage, "drawn", mime, data))
    assert (await stage.play("Go")).status == "completed"
    sent = [b"".join(request) for request in stage.requests]
    assert [text.count(in_base64(data)) for text in sent] == [0, 1, 2]
    asked = stage.line.models.asked
    assert [(before, after) for before, after in pairwise(asked) if not extends(before, after, wire.sent)] == []
    assert await stage.said(StepFailed) == []


async def test_a_file_that_is_gone_is_named(scene, wire):
    """When a file was deleted the model gets its name, and the conversation continues."""
    stage = await scene(wire, lambda asked: [think("Hm."), say("Seen.")])
    image = await keep(stage, "dot.png", "image/png", png(7))
    await send_files(stage, "Look", image)
    await stage.core._store.write(
        lambda connection: connection.execute(delete(quotas.BLOB).where(quotas.BLOB.c.id == image.file))
    )
    await stage.core.stop()
    again = await scene(wire, line=stage.line, session=stage.session)
    assert (await again.play("And now?")).status == "completed"
    sent = b"".join(stage.requests[-1])
    assert in_base64(png(7)) not in sent
    assert b"dot.png" in sent


async def test_a_file_that_no_model_reads_is_named(scene, wire):
    """Of a file in a format that models do not read they get the name and the type."""
    stage = await scene(wire, lambda asked: [say("I cannot read that.")])
    archive = await keep(stage, "all.zip", "application/zip", b"PK\x03\x04 made up")
    await send_files(stage, "Look", archive)
    sent = b"".join(stage.requests[0])
    assert b"all.zip" in sent
    assert b"application/zip" in sent
    assert in_base64(b"PK\x03\x04 made up") not in sent
