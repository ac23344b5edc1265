"""The process of one jq program: bounds itself, reads its job, writes what the program makes.

It is run by its path, as `python -I jq_child.py PARENT MEGABYTES SECONDS`, so that it imports nothing of Parley.
Standard input is JSON `{program, text}`, standard output the values, each a line. What it ends with says how it went.
"""

import json
import os
import resource
import signal
import sys

FAILED, TOO_MUCH = 3, 4
MAX_OUTPUT = 1_000_000
"""Characters that a program may write."""
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the program that standard input holds."""
    parent, megabytes, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    _die_with(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    import jq  # noqa: PLC0415 - the parent reads this module too, for the numbers

    job = json.loads(sys.stdin.buffer.read())
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    # From here on no file can be opened: a program can import modules and data by their paths.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    signal.setitimer(signal.ITIMER_REAL, seconds)  # whose own way is to end the process: jq would not let a handler run
    _leave(*_made(jq, job["program"], job["text"]))


def _made(jq: object, program: str, text: str | None) -> tuple[int, str]:
    """Return how the program ended, and what it made or what is wrong."""
    lines: list[str] = []
    size = 0
    try:
        compiled = jq.compile(program)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
        if text is None:
            return 0, ""
        json.loads(text)
        for value in compiled.input_text(text):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            lines.append(
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            )
            size += len(lines[-1]) + 1
            if size > MAX_OUTPUT:
                return TOO_MUCH, ""
    except RecursionError:
        return FAILED, "the result is nested too deeply"
    except MemoryError:
        return TOO_MUCH, ""
    except ValueError as error:
        return FAILED, str(error)
    return 0, "\n".join(lines)


def _leave(code: int, text: str) -> None:
    """Write *text* and end at once: nothing of the library is asked to tidy up without memory."""
    out, data = 2 if code else 1, memoryview(text.encode("utf-8", "replace"))
    while data:
        data = data[os.write(out, data) :]
    os._exit(code)


def _die_with(parent: int) -> None:
    """Have the kernel end this process when *parent* ends, where the kernel can."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - as above

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        sys.exit()


if __name__ == "__main__":
    main()
