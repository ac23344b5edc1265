"""Lines of a descriptor."""

import os

from app.cli.chat.command import Lines


async def test_lines_come_from_a_descriptor_and_from_signals():
    """Lines are read as they are ended, across code points, the last one without an end too; `put` adds others."""
    reader, writer = os.pipe()
    lines = Lines(reader)
    os.write(writer, b"Gr\xc3")
    os.write(writer, b"\xb6\xc3\x9fe\nlast")
    assert await anext(lines) == "Größe"
    lines.put("/stop")
    assert await anext(lines) == "/stop"
    os.close(writer)
    assert [line async for line in lines] == ["last"]
    assert [line async for line in lines] == []
    os.close(reader)
