"""The command `parley`: a process that lasts begins at once, for anything else there is a command line."""

import sys

LASTING = ("serve", "worker", "slack")
"""What is begun without the command line, which takes 2 MB and 40 ms, when there is nothing to parse."""


def main() -> None:
    """Do what was asked; an error of ours is one line and the exit code 1, Ctrl-C is the exit code 130."""
    try:
        _main(sys.argv[1:])
    except KeyboardInterrupt:  # before there is anything to end
        sys.exit(130)
    except Exception as error:
        from agent_core import ParleyError  # noqa: PLC0415 - as all here: not before it is needed

        if not isinstance(error, ParleyError):
            raise
        sys.stderr.write(f"parley: {error}\n")
        sys.exit(1)


def _main(words: list[str]) -> None:
    if len(words) == 1 and words[0] in LASTING:
        from app import begin  # noqa: PLC0415

        getattr(begin, words[0])()
    else:
        from app.cli import app  # noqa: PLC0415

        app()


if __name__ == "__main__":
    main()
