"""The golden logs as events, and Bodies of them."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from agent_core.events import LIVE, Event, Fact, Live
from channels.spec import ConversationView
from channels.view import EMPTY, view

GOLDEN = Path(__file__).parent.parent / "golden"
NAMES = tuple(sorted(path.stem for path in GOLDEN.glob("*.jsonl")))


def golden(name: str) -> list[Event]:
    """Return the events of a golden log."""
    return [event(json.loads(line)) for line in (GOLDEN / f"{name}.jsonl").read_text("utf-8").splitlines()]


def expected(name: str) -> dict[str, Any]:
    """Return what every fold of a golden log agrees on."""
    return json.loads((GOLDEN / f"{name}.expected.json").read_text("utf-8"))


def event(frame: dict[str, Any]) -> Event:
    """Return a frame of a golden log as an event."""
    time = int(datetime.fromisoformat(frame["time"]).timestamp() * 1000)
    place = {"session": frame["session"], "run": frame["run"], "parent_run": frame["parent_run"], "time": time}
    if "seq" in frame:
        return Fact(seq=frame["seq"], type=frame["type"], raw=msgspec.json.encode(frame["data"]), **place)
    return Live(body=msgspec.convert(frame["data"], LIVE[frame["type"]]), **place)


def fold(events: Sequence[Event], body: ConversationView = EMPTY) -> ConversationView:
    """Return *body* with *events* folded in."""
    for each in events:
        body = view(body, each)
    return body


class Emitter:
    """Makes a session's events one by one, with the envelope filled in."""

    def __init__(self, session: str = "ses_1") -> None:
        self._session = session
        self._seq = 0

    def __call__(self, body: Any, run: str | None = "run_1", parent: str | None = None) -> Event:
        place = {"session": self._session, "run": run, "parent_run": parent, "time": 0}
        if type(body).type in LIVE:
            return Live(body=body, **place)
        self._seq += 1
        return Fact(seq=self._seq, type=type(body).type, raw=msgspec.json.encode(body), body=body, **place)
