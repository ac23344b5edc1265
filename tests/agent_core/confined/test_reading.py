"""Which files a confined process may read."""

import json
import platform
import sys
from pathlib import Path

import pytest

from agent_core.clock import SystemClock
from agent_core.confined.closing import NUMBERS
from agent_core.confined.process import ConfinedProcess

pytestmark = pytest.mark.processes

WORKER = """
import json, threading
from pathlib import Path

PLACE = Path(__file__).parent


def tried(path, mode):
    try:
        with open(path, mode) as file:
            return file.read() if mode == "r" else "written"
    except OSError as error:
        return type(error).__name__


def imported():
    return [str(PLACE / "open"), str(PLACE / "missing")]


def prepared(readable):
    def work(job):
        found = {}

        def look():
            for each in ("open/a r", "open/a a", "open/new x", "open/link r", "secret r"):
                name, mode = each.split()
                found[each] = tried(PLACE / name, mode)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return True, json.dumps([[Path(each).name for each in readable], found]).encode()

    return work
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in NUMBERS, reason="the rules are for Linux")
async def test_files_in_its_folders_are_read_and_no_others(tmp_path: Path):
    """It writes none of them, and a link out of them leads nowhere; without Landlock it reads none."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open/a").write_text("a font")
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "open/link").symlink_to(tmp_path / "secret")
    (tmp_path / "worker.py").write_text(WORKER)
    process = await ConfinedProcess.start(tmp_path / "worker.py", 500)
    try:
        ok, said = await process.work(b"", SystemClock(), seconds=20, resident=400)
    finally:
        await process.kill()
    assert ok
    readable, found = json.loads(said)
    refused = "PermissionError" if readable else "OSError"
    assert readable in (["open"], [])
    assert found == {
        "open/a r": "a font" if readable else refused,
        **dict.fromkeys(("open/a a", "open/new x", "open/link r", "secret r"), refused),
    }
    assert [each.name for each in sorted((tmp_path / "open").iterdir())] == ["a", "link"]
