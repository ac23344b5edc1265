"""The marks of a process: keys that all processes share, and where the last request ended."""

from msgspec.structs import replace

from agent_core.agent.snapshot import freeze
from agent_core.agent.window import PromptCall, PromptHistory
from agent_core.agents import Agent, Definition, Snapshot, ToolSpec
from agent_core.messages import UNKNOWN_USAGE
from agent_core.runtime.compacting import PromptCache
from tests.cases import for_each

MODEL = "anthropic:claude-opus-5"
NEW = PromptHistory()
TOOLS = tuple(ToolSpec(name=name, description=name, parameters={"type": "object", "a": 1}) for name in "ab")


def agent(id="agent_1", **texts) -> Agent:
    snapshot: Snapshot = freeze(model=MODEL, **{"instructions": "Rules.", "tools": TOOLS, **texts})
    return Agent(id=id, version=1, definition=Definition(name="a", instructions="Rules."), snapshot=snapshot, tools={})


def history(entries=4, rewritten=None) -> PromptHistory:
    last = PromptCall(time=0, model=MODEL, snapshot="s", entries=entries, controls={}, usage=UNKNOWN_USAGE)
    return PromptHistory(last=last, rewritten=rewritten)


def marks(own=None, known=NEW):
    found = PromptCache().marks(own or agent(), known)
    assert found is not None
    return found


def test_a_key_names_the_agent_and_what_its_sessions_share():
    """Each process makes the same key; a session's own text is not in it, another agent or text has another one."""
    reordered = tuple(replace(each, parameters={"a": 1, "type": "object"}) for each in reversed(TOOLS))
    same = [agent(), agent(profile="Ann."), agent(tools=reordered)]
    others = [agent(id="agent_2"), agent(instructions="Others."), agent(tools=TOOLS[:1]), agent(memory="It rained.")]
    key = marks().key
    assert {marks(each).key for each in same} == {key}
    assert len({key, *(marks(each).key for each in others)}) == 5
    assert 0 < len(key) <= 64


@for_each(
    "known, previous",
    [
        (NEW, 0),
        (history(4), 4),
        (history(4, "compaction"), 1),
        (history(4, "snapshot"), 0),
    ],
)
def test_where_the_last_request_ended(known, previous):
    """It is what the session's history says, and the summary right after a compaction."""
    assert marks(known=known).previous == previous
