"""The golden logs through the runtime's own folds: events, run state and window."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from agent_core.agent.state import replay
from agent_core.agent.window import Window
from agent_core.events import FACTS, LIVE, TERMINAL, Fact
from agent_core.messages import Message, Text, ToolCall, ToolResult, text_of
from agent_core.providers.base import neutral
from tests.cases import for_each

GOLDEN = Path(__file__).parent.parent / "golden"
LOGS = sorted(GOLDEN.glob("*.jsonl"))
WINDOW_NOTES = ("[clock] ", "[note] ", "[The answer above was stopped")


def frames(path: Path) -> list[dict[str, Any]]:
    """Return the frames of a golden log."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def facts(path: Path) -> list[Fact]:
    """Return the facts of a golden log, as the store would read them."""
    return [
        Fact(
            seq=frame["seq"],
            type=frame["type"],
            session=frame["session"],
            run=frame["run"],
            parent_run=frame["parent_run"],
            time=int(datetime.fromisoformat(frame["time"]).timestamp() * 1000),
            raw=json.dumps(frame["data"]).encode(),
        )
        for frame in frames(path)
        if "seq" in frame
    ]


def expected(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix("").with_suffix(".expected.json").read_text("utf-8"))


def test_there_are_golden_logs():
    """The golden logs cover the plain case, emoji, retries, cancels, tools and failures."""
    assert {"plain", "emoji", "retry", "cancel", "tools", "failed", "doom_loop"} <= {path.stem for path in LOGS}


@for_each("path", LOGS)
def test_every_frame_is_an_event_of_the_union(path: Path):
    """Each frame of a golden log decodes into the event union, and encodes to the same JSON again."""
    for frame in frames(path):
        kind = (FACTS if "seq" in frame else LIVE)[frame["type"]]
        body = msgspec.convert(frame["data"], kind, strict=True)
        assert json.loads(msgspec.json.encode(body)) == frame["data"], frame


@for_each("path", LOGS)
def test_replay_gives_the_end_of_each_run(path: Path):
    """Replaying a golden log ends each run with the expected status, and leaves nothing of it open."""
    log = facts(path)
    for run, status in expected(path)["runs"].items():
        state = replay(run, log)
        last = [fact for fact in log if fact.run == run][-1]
        assert state.phase == "ended"
        assert isinstance(last.body, TERMINAL)
        assert last.type == f"run.{status}"
        assert not state.step.is_open
        assert not state.waiting.open_calls()
        assert state.seq == log[-1].seq


@for_each("path", LOGS)
def test_replay_needs_no_more_than_the_log(path: Path):
    """A state replayed in two parts, at any place, equals the state replayed at once."""
    log = facts(path)
    for run in expected(path)["runs"]:
        whole = replay(run, log)
        for border in range(len(log)):
            assert replay(run, log[:border]).apply(*log[border:]) == whole


@for_each("path", LOGS)
def test_the_window_holds_the_transcript(path: Path):
    """The window of a golden log says what its transcript says, without what is empty; or what it says by itself."""
    window = Window(neutral)
    window.apply(facts(path))
    own = path.with_suffix(".window.json")
    wanted = json.loads(own.read_text("utf-8")) if own.exists() else expected(path)["transcript"]
    assert spoken(window) == [(said["role"], said["text"]) for said in wanted if said["text"]]


@for_each("path", LOGS)
def test_every_call_in_a_window_has_its_result(path: Path):
    """Each assistant message that calls tools is followed by exactly the results of its calls, in call order."""
    window = Window(neutral)
    window.apply(facts(path))
    messages = [entry.message for entry in window.entries]
    for place, message in enumerate(messages):
        calls = [part.call for part in message.parts if isinstance(part, ToolCall)]
        if calls:
            assert messages[place + 1].role == "tool"
            assert [part.call for part in messages[place + 1].parts if isinstance(part, ToolResult)] == calls


def spoken(window: Window) -> list[tuple[str, str]]:
    """Return what people and the model said in the window, notes left out."""
    return [(entry.message.role, text_of(entry.message.parts)) for entry in window.entries if _is_speech(entry.message)]


def _is_speech(message: Message) -> bool:
    said = "".join(part.text for part in message.parts if isinstance(part, Text))
    return message.role != "tool" and bool(said) and not said.startswith(WINDOW_NOTES)
