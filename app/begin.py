"""Begin a process that lasts: `parley serve`, `parley worker` and `parley slack`."""

# What is imported from here on is imported as lightly as can be, in this order.
# ruff: noqa: PLC0415

import gc
import typing

from app import bytecode

if typing.TYPE_CHECKING:
    from app.settings import Settings

STARTING = (10_000, 1_000, 1_000)
"""The collector's thresholds until a process is up: only what is young is looked at, for most of the rest lasts."""


def serve(*, web_only: bool = False) -> None:
    """Serve until a signal comes; with *web_only* drive no runs."""
    settings = _settings()
    from app.lean import NO_V1, without

    with without(NO_V1):
        from app.main import serve as run

    run(settings, web_only=web_only)


def worker(*, health_port: int | None = None) -> None:
    """Drive runs until a signal comes; *health_port* answers `/healthz`, `/readyz` and `/metrics`."""
    settings = _settings()
    from app.main import work as run

    run(settings, health_port=health_port)


def slack() -> None:
    """Hear Slack by Socket Mode until a signal comes."""
    settings = _settings()
    from app.main import listen as run

    run(settings)


def _settings() -> "Settings":
    """Import what any such process needs, and return its settings."""
    gc.set_threshold(*STARTING)
    bytecode.use()
    from app import lean

    lean.arena()
    lean.libraries()
    from app import logs
    from app.settings import load_settings

    logs.configure()
    settings = load_settings()
    logs.configure(settings.log)
    # Python keeps each overload of a library for who asks `typing.get_overloads`: nobody does.
    typing.clear_overloads()
    return settings
