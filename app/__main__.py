"""The command `parley`: an error of ours is one line and the exit code 1, Ctrl-C is the exit code 130."""

import gc
import sys

from app.collector import SELDOM

INTERRUPTED = 130


def main() -> None:
    """Run the command line; raises SystemExit with its exit code, and whatever is a bug."""
    gc.set_threshold(*SELDOM)
    try:
        # Imported here, so that Ctrl-C during the imports prints no trace either.
        from app.cli.commands import app  # noqa: PLC0415

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        from agent_core.errors import ParleyError  # noqa: PLC0415 - as above
        from channels.text import visible  # noqa: PLC0415 - as above

        if not isinstance(error, ParleyError):
            raise
        sys.stderr.write(f"parley: {visible(str(error))}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
