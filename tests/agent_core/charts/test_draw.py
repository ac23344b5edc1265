"""The drawing process: started, bounded, shared, replaced and ended."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop

from agent_core.charts.draw import BOUNDS, Drawer, DrawingBounds, DrawingFailed, DrawingUnavailable
from agent_core.charts.renderer import DARK, LIGHT
from agent_core.confined.reading import OPEN_FILES
from agent_core.testing.clock import FakeClock
from tests.agent_core.charts.drawings import PNG, bar, endless, opened
from tests.polling import PATIENCE, until

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[3]


with_one_process = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drawer() -> AsyncIterator[Drawer]:
    """One drawer, and so one process, for all tests that leave it as it is."""
    async with opened() as made:
        yield made


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have processes that draw nothing: what starts, ends and replaces them is the same."""
    monkeypatch.setattr("agent_core.charts.draw._WORKER", Path(__file__).with_name("idle.py"))


@with_one_process
async def test_a_chart_is_drawn_as_png_and_svg_light_and_dark(drawer: Drawer):
    """One chart gives a PNG on white or dark, an SVG without a background, and more pixels at a larger scale."""
    light, dark, large = await drawer.png(bar()), await drawer.png(bar(), dark=True), await drawer.png(bar(), scale=3)
    assert [each for each in (light, dark, large) if not each.startswith(PNG)] == []
    assert light != dark
    assert int.from_bytes(large[16:20]) == pytest.approx(1.5 * int.from_bytes(light[16:20]), abs=1)
    svg, night = await drawer.svg(bar()), await drawer.svg(bar(), dark=True)
    assert svg.startswith(b"<svg ")
    assert b"Weekly orders" in svg
    assert b'fill="white"' not in svg
    assert b"#ececf1" in night
    assert await drawer.check(bar()) is None


@with_one_process
async def test_a_small_grid_is_large_enough_to_read_and_a_charts_own_size_wins(drawer: Drawer):
    """Five by five cells have 32 px each; `width`, `height` and `config` of the chart itself are used as they are."""
    cells = [{"x": x, "y": y, "n": x * y} for x, y in product(range(5), repeat=2)]
    grid = {
        "data": {"values": cells},
        "mark": "rect",
        "encoding": {
            "x": {"field": "x", "type": "ordinal"},
            "y": {"field": "y", "type": "ordinal"},
            "color": {"field": "n", "type": "quantitative"},
        },
    }
    config = {"background": "#123456", "axis": {"labelFontSize": 31}}
    plain, own = [(await drawer.svg(each)).decode() for each in (grid, grid | {"width": 90, "config": config})]
    assert 'd="M0.5,0.5h160v160h-160Z"' in plain
    assert 'd="M0.5,0.5h90v160h-90Z"' in own
    assert ["#123456" in own, 'font-size="31px"' in own] == [True, True]


def test_drawings_have_the_widgets_colours():
    """Series of a drawing have the colours that they have in the widget, light and dark."""
    style = (ROOT / "channels/web/widget/src/drawn/drawn.css").read_text()
    found = re.findall(r"--c[0-7]: var\(--parley-chart-[1-8], light-dark\((#\w+), (#\w+)\)\)", style)
    assert found == list(zip(LIGHT.series, DARK.series, strict=True))


@pytest.mark.whole
async def test_callers_of_one_chart_share_its_drawing_and_later_ones_need_no_process():
    """Twenty callers of one new chart are one job; it is kept, and given again although the process has ended."""
    async with opened(jobs=2) as drawer:
        drawings = await asyncio.gather(*(drawer.png(bar()) for _ in range(20)))
        assert len(set(drawings)) == 1
        assert len(drawer.pids) == 1
        await drawer.close()
        assert await drawer.png(bar()) == drawings[0]
        assert drawer.pids == ()


@with_one_process
async def test_a_chart_that_cannot_be_drawn_is_refused_with_its_reason(drawer: Drawer):
    """An error is one line for people and models, without a path, an address or a stack."""
    wrong = {
        "without saying where": {"mark": "foo", "data": {"values": []}},
        "at least one of the following properties": {},
        "too large": bar(width=200_000),
        "is no JSON": {"mark": "bar", "data": {"values": [{"a": object()}]}},
        "bytes, and at most 4,000,000 are drawn": bar(description="x" * 5_000_000),
    }
    for ask, (said, spec) in product((drawer.png, drawer.svg, drawer.check), wrong.items()):
        with pytest.raises(DrawingFailed, match=said) as raised:
            await ask(spec)
        assert len(str(raised.value)) < 500
        assert not any(each in str(raised.value) for each in ("\n", "://", "esm:", "/vega"))
        assert not isinstance(raised.value, DrawingUnavailable)
    assert len(drawer.pids) == 1


async def test_a_drawing_that_takes_too_long_is_killed():
    """After five seconds the process is killed, its job fails for a minute, and the next one is drawn by another."""
    clock = FakeClock()
    async with opened(clock) as drawer:
        stuck, waits = asyncio.create_task(drawer.png(endless())), asyncio.create_task(drawer.png(bar()))
        await clock.slept()
        (first,) = drawer.pids
        clock.advance(BOUNDS.seconds)
        with pytest.raises(DrawingFailed, match="more than 5 s; draw fewer rows"):
            await stuck
        assert (await waits).startswith(PNG)
        assert drawer.pids != (first,)
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
        with pytest.raises(DrawingFailed, match="more than 5 s"):
            await drawer.png(endless())


@pytest.mark.whole
async def test_a_drawing_that_holds_too_much_memory_is_killed():
    """A process above its bound of memory is killed at the next look, long before its time is up."""
    clock = FakeClock()
    async with opened(clock, resident=20) as drawer:
        stuck = asyncio.create_task(drawer.png(endless()))
        await clock.slept()
        clock.advance(0.1)
        with pytest.raises(DrawingFailed, match="more than 20 MB of memory"):
            await stuck


@pytest.mark.usefixtures("idle")
async def test_a_process_that_dies_of_its_job_fails_that_job_alone():
    """The job of a process that was killed fails and is not tried again; the next one is drawn."""
    clock = FakeClock()
    async with opened(clock) as drawer:
        stuck = asyncio.create_task(drawer.png(endless()))
        await clock.slept()
        os.kill(drawer.pids[0], signal.SIGKILL)
        with pytest.raises(DrawingFailed, match="too much memory"):
            await stuck
        assert drawer.pids == ()
        assert (await drawer.png(bar())).startswith(PNG)
        os.kill(drawer.pids[0], signal.SIGKILL)  # now while it has no job
        await until(lambda: drawer.pids == ())
        assert (await drawer.png(bar(title="other"))).startswith(PNG)


@with_one_process
async def test_a_caller_that_goes_away_leaves_the_process_in_order(drawer: Drawer):
    """After a cancelled caller the next one gets its own drawing, and a job that no caller waits for is not begun."""
    await drawer.check(bar())
    gone = asyncio.create_task(drawer.svg(bar(title="the first")))
    unbegun = asyncio.create_task(drawer.svg(bar(title="never drawn")))
    follows = asyncio.create_task(drawer.svg(bar(title="the second")))
    await asyncio.sleep(0)
    gone.cancel()
    unbegun.cancel()
    assert b"the second" in await follows
    assert [gone.cancelled(), unbegun.cancelled()] == [True, True]
    assert drawer.pids != ()


@pytest.mark.usefixtures("idle")
async def test_more_jobs_than_may_wait_are_refused():
    """With one drawing and two waiting the next is refused as something to ask again, and is not remembered."""
    async with opened(waiting=2) as drawer:
        asked = [asyncio.create_task(drawer.check(bar(title=str(n)), owner=str(n))) for n in range(4)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [type(None)] * 3 + [DrawingUnavailable]
        assert await drawer.check(bar(title="3")) is None


@pytest.mark.whole
@pytest.mark.usefixtures("idle")
async def test_slow_charts_of_one_owner_delay_another_by_one_job_at_most():
    """A chart waits for the job that runs, however many of one owner wait before it; that owner is then refused."""
    clock = FakeClock()
    async with opened(clock) as drawer:
        bad = [asyncio.create_task(drawer.check(endless() | {"title": str(n)}, owner="a")) for n in range(7)]
        await clock.slept()
        good = asyncio.create_task(drawer.png(bar(), owner="b"))
        await asyncio.sleep(0)
        clock.advance(BOUNDS.seconds)
        assert (await good).startswith(PNG)
        assert [each.done() for each in bad] == [True, *[False] * 6]
        await clock.slept()
        clock.advance(BOUNDS.seconds)
        found = await asyncio.gather(*bad, return_exceptions=True)
        assert [type(each) for each in found] == [DrawingFailed] * 2 + [DrawingUnavailable] * 5
        with pytest.raises(DrawingUnavailable, match="within a minute; ask again in a minute"):
            await drawer.png(bar(title="other"), owner="a")
        assert (await drawer.png(bar(title="other"), owner="b")).startswith(PNG)
        clock.advance(60)
        assert (await drawer.png(bar(title="a minute later"), owner="a")).startswith(PNG)


@pytest.mark.usefixtures("idle")
async def test_one_owner_fills_no_queue():
    """What one owner asks beyond eight is refused at once; another has room."""
    async with opened(waiting=8) as drawer:
        many = [asyncio.create_task(drawer.check(bar(title=str(n)), owner="a")) for n in range(9)]
        other = asyncio.create_task(drawer.check(bar(title="b"), owner="b"))
        found = await asyncio.gather(*many, other, return_exceptions=True)
        assert [type(each) for each in found] == [type(None)] * 8 + [DrawingUnavailable, type(None)]


@pytest.mark.usefixtures("idle")
async def test_a_process_is_replaced_after_its_jobs_and_ended_when_idle():
    """Memory does not grow for ever: a process draws so many jobs, and none is kept when there is nothing to draw."""
    clock = FakeClock()
    async with opened(clock, jobs=2) as drawer:
        await drawer.check(bar(title="1"))
        (first,) = drawer.pids
        await drawer.check(bar(title="2"))
        assert drawer.pids == ()
        await drawer.check(bar(title="3"))
        assert first not in drawer.pids
        await until(lambda: clock.sleepers == 1)
        clock.advance(BOUNDS.idle)
        await until(lambda: drawer.pids == ())


@pytest.mark.whole
@pytest.mark.usefixtures("idle")
async def test_two_processes_draw_side_by_side():
    """With two processes a chart is drawn while another one takes its time."""
    clock = FakeClock()
    async with opened(clock, processes=2) as drawer:
        stuck = asyncio.create_task(drawer.png(endless()))
        await clock.slept()
        assert (await drawer.png(bar())).startswith(PNG)
        assert len(drawer.pids) == 2
        assert not stuck.done()
        await drawer.close()
        with pytest.raises(DrawingUnavailable, match="the server stops"):
            await stuck
        assert drawer.pids == ()


def limits_of(pid: int) -> dict[str, list[str]]:
    """Return the limits of the process *pid* by name, soft and hard."""
    lines = Path(f"/proc/{pid}/limits").read_text("ascii").splitlines()
    return {line[:26].strip(): line[26:].split()[:2] for line in lines}


async def test_the_process_is_bounded_and_has_no_secret(monkeypatch: pytest.MonkeyPatch):
    """The process dumps no core, may open no file but fonts, and its environment has none of the parent's values."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret")
    async with opened() as drawer:
        await drawer.check(bar())
        proc = Path(f"/proc/{drawer.pids[0]}")
        limits = limits_of(drawer.pids[0])
        assert limits["Max core file size"] == ["0", "0"]
        assert limits["Max open files"] in (["0", "0"], [str(OPEN_FILES)] * 2)
        assert limits["Max data size"] == [str(1024 << 20)] * 2
        names = {each.partition(b"=")[0] for each in (proc / "environ").read_bytes().split(b"\0") if each}
    assert names <= {b"TZ", b"LD_LIBRARY_PATH"}


GEORGIAN = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")


@pytest.mark.whole
@pytest.mark.skipif(not GEORGIAN.exists(), reason="there is no font of the system that is known")
async def test_letters_that_the_package_lacks_are_drawn_by_the_systems_fonts():
    """Of two words in a script that the package's fonts do not have, two pictures: as boxes they are alike."""
    async with opened() as drawer:
        await drawer.check(bar())
        if limits_of(drawer.pids[0])["Max open files"] == ["0", "0"]:
            pytest.skip("this kernel lets no process read fonts alone")
        one, other = [await drawer.png({**bar(), "title": word}) for word in ("\u10d0\u10d1", "\u10d2\u10d3")]
        assert one != other


@pytest.mark.usefixtures("idle")
def test_a_drawer_serves_one_event_loop_after_another_and_forks():
    """A drawer that was used in an event loop, which may be open still, draws in the next one, and after a fork."""
    drawer = Drawer(DrawingBounds(cache=0))

    async def draw() -> bytes:
        return await drawer.png(bar())

    with asyncio.Runner() as first:
        drawn = first.run(draw())
        forked = os.fork()
        if not forked:
            os._exit(0 if asyncio.run(asyncio.wait_for(draw(), PATIENCE)) == drawn else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
        pids = drawer.pids
        assert first.run(draw()) == drawn
        assert drawer.pids == pids
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as second:
            assert second.run(draw()) == drawn
            assert drawer.pids != pids
            second.run(drawer.close())


@pytest.mark.whole
def test_the_process_ends_with_its_parent():
    """When the server is killed its drawing process ends too."""
    program = (
        "import asyncio\nfrom agent_core.charts.draw import Drawer\n"
        "async def main():\n"
        "    drawer = Drawer()\n"
        f"    await drawer.check({bar()!r})\n"
        "    print(*drawer.pids, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    asyncio.run(until(lambda: not alive(child)))


def alive(pid: int) -> bool:
    """Return whether a process runs that is not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
