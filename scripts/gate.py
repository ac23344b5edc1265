#!/usr/bin/env python3
"""Run the gate: the tests, and the checks beside them; say what it took, and what failed once only.

At most five tests that fail are run once more, alone. What then passes is printed as FLAKY and noted in tests/flaky.md;
a test with two entries there leaves the gate (tests/gate.py). `--slow` gives the run a third of the machine.
"""

import datetime as dt
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PYTEST = (str(ROOT / ".venv/bin/python"), "-m", "pytest")
FAILED = ROOT / ".pytest_cache/v/cache/lastfailed"
FLAKY = ROOT / "tests/flaky.md"
MAX_AGAIN = 5
BEGAN = time.monotonic()
CORES = os.cpu_count() or 1


def main(words: list[str]) -> int:
    """Return 0 if the checks and the tests passed, those that failed once on their second try."""
    is_slow = "--slow" in words
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        os.environ["TMPDIR"] = stack.enter_context(scratch())
        if is_slow:
            stack.enter_context(third_of_the_machine())
        if not (ROOT / "tests/__pycache__").exists():  # else each worker compiles all by itself
            with started([*PYTEST, "--collect-only", "-qq"], stdout=subprocess.DEVNULL) as collecting:
                ended("collection", collecting)
        FAILED.unlink(missing_ok=True)
        checks = stack.enter_context(tempfile.TemporaryFile())
        checking = stack.enter_context(started(["make", "--no-print-directory", "check"], stdout=checks, stderr=checks))
        parallel = [word for word in words if word != "--slow"]
        with started([*PYTEST, *parallel, "--junitxml=artifacts/junit.xml"]) as testing:
            tested = ended("tests", testing)
        checked = ended("checks, beside them", checking)
        checks.seek(0)
        sys.stdout.buffer.write(checks.read())
        sys.stdout.flush()
        flaky = failed_once() if tested == 1 else []
    for name in flaky:
        print(f"FLAKY: {name}")
    if not is_slow:
        note(flaky)
    lines = Counter(re.findall(r"^- \S+ `(.+)`$", FLAKY.read_text("utf-8"), re.MULTILINE))
    for name in (name for name, times in lines.items() if times > 1):
        print(f"Left out, since it was flaky twice: {name}")
    return 0 if checked == 0 and (tested == 0 or flaky) else 1


def failed_once() -> list[str]:
    """Run again, alone, what failed; return it if all of it passes now, else nothing."""
    failed = sorted(json.loads(FAILED.read_text("utf-8"))) if FAILED.exists() else []
    if not 0 < len(failed) <= MAX_AGAIN:
        print(f"{len(failed)} tests failed; up to {MAX_AGAIN} would be run again.", flush=True)
        return []
    print(f"Once more, alone: {', '.join(failed)}", flush=True)
    with started([*PYTEST, "-q", "--durations=0", *failed]) as testing:
        return failed if ended("once more", testing) == 0 else []


def note(flaky: list[str]) -> None:
    """Add a line with today's date for each of *flaky* to the list of such tests."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    with FLAKY.open("a", encoding="utf-8") as file:
        file.writelines(f"- {today} `{name}`\n" for name in flaky)


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run *command*; however this ends, it is at an end then too."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            process.wait()


def ended(what: str, process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of *process*; return its exit code, and say what CPU time it took."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took, cpu = time.monotonic() - BEGAN, used.ru_utime + used.ru_stime
    print(f"{what}: {cpu:.0f} CPU seconds; {took:.0f} s after the start", flush=True)
    return process.returncode


@contextmanager
def scratch() -> Iterator[str]:
    """Give a folder for what tests write."""
    folder = subprocess.run(["scripts/scratch"], check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def third_of_the_machine() -> Iterator[None]:
    """Have this process and what it starts share a third of the processors: by a quota, or beside busy processes."""
    with ExitStack() as stack:
        try:
            stack.enter_context(quota(CORES / 3))
        except OSError:
            for _ in range(2 * CORES + 2):
                busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
                stack.callback(busy.wait)
                stack.callback(busy.kill)
        yield


@contextmanager
def quota(cores: float) -> Iterator[None]:
    """Move this process into a control group with so many *cores*; raises OSError where it may not make one."""
    period = 100_000
    first, second = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    limits = (
        {"cpu.cfs_quota_us": str(int(cores * period))}
        if first.exists()
        else {"cpu.max": f"{cores * period:.0f} {period}"}
    )
    parent = first if first.exists() else second
    memberships = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines()]
    before = next(where for _, kinds, where in memberships if kinds == ("cpu" if first.exists() else ""))
    group = parent / f"parley-slow-{os.getpid()}"
    group.mkdir()
    try:
        for name, text in limits.items():
            (group / name).write_text(text, "utf-8")
        (group / "cgroup.procs").write_text(str(os.getpid()), "utf-8")
    except OSError:
        group.rmdir()
        raise
    print(f"A quota of {cores:.2f} of {CORES} processors.", flush=True)
    try:
        yield
    finally:
        with suppress(OSError):  # what is left of the tests has a moment to end
            (parent / before.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()), "utf-8")
            time.sleep(1)
            group.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
