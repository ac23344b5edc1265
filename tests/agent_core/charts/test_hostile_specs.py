"""Hostile specifications, given to the drawing process as they are: inert, killed or refused, and the next is drawn."""

import asyncio
import json
import struct
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_core.charts.draw import Drawer, DrawingFailed
from agent_core.charts.spec import checked
from tests.agent_core.charts.drawings import PNG, bar, opened
from tests.agent_core.charts.hostile import BOUNDED, hostile
from tests.cases import for_each

pytestmark = pytest.mark.processes

UNGUARDED = """
import json, sys, vl_convert
for spec in json.load(sys.stdin):
    try:
        print(vl_convert.vegalite_to_png(spec, vl_version="6.4", allowed_base_urls=[]).hex(), flush=True)
    except ValueError:
        print("refused", flush=True)
"""

with_one_process = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drawer() -> AsyncIterator[Drawer]:
    """One drawer that keeps no drawing, for all tests that do not end its process."""
    async with opened(cache=0, seconds=60) as made:
        yield made


@dataclass
class Trap:
    """A server that counts who connects, and answers with a picture."""

    picture: bytes
    port: int = 0
    asked: list[str] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readline()).decode())
        head = f"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {len(self.picture)}\r\n\r\n"
        writer.write(head.encode() + self.picture)
        writer.close()


@asynccontextmanager
async def trap(picture: bytes) -> AsyncIterator[Trap]:
    set_up = Trap(picture)
    server = await asyncio.start_server(set_up.answer, "127.0.0.1", 0)
    set_up.port = server.sockets[0].getsockname()[1]
    async with server:
        yield set_up


def red() -> bytes:
    """Return a red picture of one pixel as PNG."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack("!IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return PNG + head + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")


def image(url: str) -> dict[str, Any]:
    """Return a chart that shows the picture at *url*."""
    return {"data": {"values": [{}]}, "mark": {"type": "image", "url": url, "width": 90, "height": 90}}


def reaching(file: str, host: str) -> list[dict[str, Any]]:
    """Return charts that ask for a file or a host in every way there is."""
    addresses = (file, f"file://{file}", f"http://{host}/a")
    return [
        *map(image, addresses),
        *(bar(data={"url": each, "format": {"type": "csv"}}) for each in addresses[1:]),
        *(
            bar(transform=[{"lookup": "week", "from": {"data": {"url": each}, "key": "week", "fields": ["a"]}}])
            for each in addresses[2:]
        ),
        {"data": {"url": f"http://{host}/t", "format": {"type": "topojson", "feature": "a"}}, "mark": "geoshape"},
        bar(background=f"url(http://{host}/b)", usermeta={"embedOptions": {"config": f"http://{host}/c"}}),
        bar(title=f'</text><image href="file://{file}" width="9" height="9"/><text>'),
        bar(config={"font": f"x;src:url(http://{host}/f)"}, **{"$schema": f"http://{host}/s"}),
    ]


async def drawn(drawer: Drawer, specs: list[dict[str, Any]]) -> list[bytes | str]:
    """Return each drawing, or why there is none."""

    async def one(spec: dict[str, Any]) -> bytes | str:
        try:
            return await drawer.png(spec)
        except DrawingFailed as error:
            return str(error)

    return [await one(spec) for spec in specs]


@with_one_process
async def test_no_chart_reads_a_file_or_asks_a_host(drawer: Drawer, tmp_path: Path):
    """A drawing is the same whether the file that it names is there or not, and no host is asked."""
    file = tmp_path / "secret.png"
    async with trap(red()) as host:
        specs = reaching(str(file), f"127.0.0.1:{host.port}")
        without = await drawn(drawer, specs)
        file.write_bytes(red())
        assert await drawn(drawer, specs) == without
        assert host.asked == []
        assert sum(isinstance(each, bytes) for each in without) > 3
        assert not [each for each in without if isinstance(each, str) and (str(tmp_path) in each or "127.0" in each)]


@pytest.mark.whole
async def test_the_renderer_alone_would_read_and_ask(tmp_path: Path):
    """Without the bounds of the process the same charts show the file and ask the host: the test above can fail."""
    file = tmp_path / "secret.png"
    async with trap(red()) as host:
        specs = [image(f"file://{file}"), image(f"http://127.0.0.1:{host.port}/a")]
        without = await unguarded(specs[:1])
        file.write_bytes(red())
        assert (await unguarded(specs))[0] != without[0]
        assert len(host.asked) == 1


async def unguarded(specs: list[dict[str, Any]]) -> list[bytes]:
    """Return what a process without bounds says about *specs*."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", UNGUARDED, stdin=pipe, stdout=pipe)
    out, _ = await process.communicate(json.dumps(specs).encode())
    return out.split()


@pytest.mark.whole
@for_each(
    "spec, bounds, said",
    [
        (bar(data={"sequence": {"start": 0, "stop": 1e9}}), {"allocated": 700, "seconds": 60}, "too much memory"),
        (bar(title="x" * 1_000_000), {"resident": 200, "seconds": 60}, "more than 200 MB of memory"),
    ],
)
async def test_a_bomb_is_bounded_in_memory(spec: dict[str, Any], bounds: dict[str, Any], said: str):
    """What would take all memory ends with its process, within its bounds, and the next chart is drawn."""
    async with opened(**bounds) as drawer:
        with pytest.raises(DrawingFailed, match=said):
            await drawer.png(spec)
        assert drawer.pids == ()
        assert (await drawer.png(bar())).startswith(PNG)


@pytest.mark.whole
@with_one_process
async def test_what_grows_large_is_refused_before_it_is_drawn(drawer: Drawer):
    """Steps, facets and fonts of absurd sizes are measured and refused, and the process goes on."""
    for spec in (
        bar(width={"step": 1_000_000}),
        bar(title={"text": "large", "fontSize": 1e6}),
        bar(height=40_000, width=900),
        {"hconcat": [bar(width=1500, height=1500)] * 6},
    ):
        with pytest.raises(DrawingFailed, match="too large"):
            await drawer.check(spec)
    (pid,) = drawer.pids
    wide = await drawer.png(bar(width=3000, height=2000))
    assert int.from_bytes(wide[16:20]) * int.from_bytes(wide[20:24]) == pytest.approx(12e6, rel=0.01)
    assert drawer.pids == (pid,)


@with_one_process
async def test_nesting_is_bounded(drawer: Drawer):
    """A chart nested beyond reason gives a drawing or an error, and the next chart is drawn."""
    for depth in (100, 2_000):
        spec: dict[str, Any] = bar()
        for _ in range(depth):
            spec = {"hconcat": [spec]}
        (found,) = await drawn(drawer, [spec])
        assert found[:8] == PNG or isinstance(found, str)
        assert (await drawer.png(bar(title=f"after {depth}"))).startswith(PNG)


@pytest.mark.whole
async def test_what_the_checks_let_through_ends_in_time():
    """Expressions, bins and ticks without an end are killed with a reason, and the next chart is drawn."""
    async with opened(seconds=2) as drawer:
        for case in hostile():
            if case.word == BOUNDED:
                with suppress(DrawingFailed):
                    assert (await drawer.png(checked(case.spec), owner=case.name)).startswith(PNG), case
        assert (await drawer.png(bar())).startswith(PNG)
