"""Servers that refuse the search for tools (`router: native`), at first and in mid-conversation."""

from typing import Any

import msgspec
import pytest

from agent_core.events import StepFailed
from agent_core.providers.base import REMEMBERED
from agent_core.testing import call, say
from agent_core.testing.models import status
from tests.agent_core.providers.contract.searching import FIND, NATIVE, played, set_shop, tools_of
from tests.agent_core.providers.contract.wires import RESPONSES
from tests.agent_core.routing import by_name, ends
from tests.agent_core.stage import ANN

pytestmark = pytest.mark.whole

UNKNOWN = {
    "anthropic": {
        "type": "invalid_request_error",
        "message": "tools.2.custom.defer_loading: Extra inputs are not permitted",
    },
    "openai": {"type": "invalid_request_error", "message": "Tool 'tool_search' is not supported with this model."},
}


@NATIVE
async def test_a_server_that_knows_no_deferred_tools_is_asked_without_them(scene: Any, wire: Any):
    """The refusal costs one request: it is asked again at once, and from then on, with the definitions as text."""
    refuses = status(400, msgspec.json.encode({"error": UNKNOWN[wire.name]}), {"content-type": "application/json"})
    stage = await set_shop(scene, wire, refuses, FIND, by_name("create_order", id=7), say("Made."))
    assert await played(stage) == "Made."
    assert not await stage.said(StepFailed)
    assert (await ends(stage))[-1] == ("done", "create_order 7 is fine")
    first, *others = stage.line.models.asked
    assert b"defer_loading" in first.raw or b"tool_search" in first.raw
    assert not any(b"defer_loading" in each.raw or b'"tool_search"' in each.raw for each in others)
    assert b'\\"name\\":\\"create_order\\"' in others[1].raw
    assert not any(b"tool_reference" in each.raw for each in others)


@NATIVE
async def test_a_server_that_knows_no_search_any_more_is_asked_without_what_one_left(scene: Any, wire: Any):
    """In mid-conversation, as with another gateway: earlier searches become calls of a function, answered in text."""
    refuses = status(400, msgspec.json.encode({"error": UNKNOWN[wire.name]}), {"content-type": "application/json"})
    failing = call("search_tools", limit=3)
    script = (FIND, failing, call("create_order", id=7), say("Made."), refuses, by_name("get_order", id=1), say("Yes."))
    stage = await set_shop(scene, wire, *script)
    await played(stage)
    assert await played(stage) == "Yes."
    assert not await stage.said(StepFailed)
    *_, refused, again, last = stage.line.models.asked
    assert b"tool_search" in refused.raw or b"tool_reference" in refused.raw
    for each in (again, last):
        assert not any(word in each.raw for word in (b"tool_reference", b'"tool_search', b"defer_loading"))
        assert b'\\"name\\":\\"create_order\\"' in each.raw
        assert b'"search_tools"' in each.raw
    items = list(again.body["input" if wire is RESPONSES else "messages"])
    assert len(items) == len(list(refused.body["input" if wire is RESPONSES else "messages"])) - (wire is RESPONSES)


@NATIVE
async def test_a_session_that_was_refused_the_search_stays_without_it(scene: Any, wire: Any):
    """After an hour the server may be another one: new sessions ask it again, the running one keeps its prefix."""
    refuses = status(400, msgspec.json.encode({"error": UNKNOWN[wire.name]}), {"content-type": "application/json"})
    stage = await set_shop(scene, wire, refuses, FIND, say("Found."), say("Yes."), say("New."))
    await played(stage)
    fields = stage.line.provider._fields
    fields._refusing = {key: at - REMEMBERED for key, at in fields._refusing.items()}
    assert await played(stage) == "Yes."
    _, first, _, later = stage.line.models.asked
    assert msgspec.json.encode(tools_of(first)) == msgspec.json.encode(tools_of(later))
    assert stage.requests[3][: len(stage.requests[2])] == stage.requests[2]
    stage.session = (await stage.core.open_session(agent="assistant", actor=ANN)).id
    assert await played(stage) == "New."
    asked = stage.line.models.asked[-1].raw
    assert b"defer_loading" in asked or b'"tool_search"' in asked
