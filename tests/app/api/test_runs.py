"""Routes of runs: the three modes, looking and stopping."""

import httpx

from agent_core.messages import Message, Text
from tests.app.frames import frames

PATH = "/v1/agents/assistant/runs"


async def test_waiting_gives_the_ended_run(client: httpx.AsyncClient):
    """The default mode answers 200 with the run and what it said."""
    answer = await client.post(PATH, json={"input": "Hi", "controls": {"max_steps": 1}})
    assert answer.status_code == 200
    run = answer.json()
    assert (run["status"], run["output"]["text"]) == ("completed", "You said: Hi")
    assert run["started_by"] == {"id": "operator", "kind": "service"}
    assert (await client.get(f"/v1/runs/{run['id']}")).json() == run
    assert (await client.get(f"/v1/runs/{run['id']}/tree")).json() == {"items": [run]}
    assert (await client.get(f"/v1/runs?agent=assistant&session={run['session']}")).json()["items"] == [run]


async def test_waiting_ends_with_the_timeout(client: httpx.AsyncClient, model):
    """A run that is still at work after `timeout` seconds answers 202 and continues."""
    model.hold()
    answer = await client.post(PATH, json={"input": "Hi", "timeout": 0})
    assert (answer.status_code, answer.json()["status"]) == (202, "running")


async def test_background_answers_at_once(client: httpx.AsyncClient, model):
    """Mode background answers 202 with the run."""
    model.hold()
    answer = await client.post(PATH, json={"input": "Hi", "mode": "background"})
    assert (answer.status_code, answer.json()["status"]) == (202, "running")


async def test_streaming_carries_the_run(client: httpx.AsyncClient):
    """Mode stream sends the run's events from its message on, and names run and session in headers."""
    answer = await client.post(PATH, json={"input": "Hi", "mode": "stream"})
    found = [frame for frame in frames(answer.text) if frame.id]
    events = [frame.event for frame in found]
    assert (events[0], events[-1]) == ("message.received", "run.completed")
    assert {"run.queued", "step.started", "tool.completed", "message.completed"} <= set(events)
    assert {frame.data["run"] for frame in found} == {answer.headers["Parley-Run"]}
    assert {frame.data["session"] for frame in found} == {answer.headers["Parley-Session"]}
    tail = await client.get(f"/v1/runs/{answer.headers['Parley-Run']}/events?after={found[2].id}")
    assert frames(tail.text) == found[3:]


async def test_a_repeated_key_is_the_same_run(client: httpx.AsyncClient):
    """Mode, timeout and disconnect are no part of the work that a key names; everything else is."""
    first = await client.post(PATH, json={"input": "Hi", "idempotency_key": "k"})
    again = await client.post(
        PATH, json={"input": "Hi", "idempotency_key": "k", "mode": "background", "on_disconnect": "cancel"}
    )
    other = await client.post(PATH, json={"input": "Ho", "idempotency_key": "k"})
    assert again.json()["id"] == first.json()["id"]
    assert other.json()["code"] == "idempotency_mismatch"
    assert len((await client.get("/v1/runs")).json()["items"]) == 1


async def test_messages_are_history_and_question(client: httpx.AsyncClient, taken):
    """Leading system messages are the run's instructions, the last message is what it answers."""
    messages = [
        {"role": "system", "text": "Be brief."},
        {"role": "system", "parts": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "text": "Hi"},
        {"role": "assistant", "text": "Hello"},
        {"role": "user", "parts": [{"type": "text", "text": "How"}, {"type": "text", "text": "are you?"}]},
    ]
    await client.post(PATH, json={"messages": messages, "actor": "u1"})
    inbound = taken[0]
    assert inbound.instructions == "Be brief.\n\nBe kind."
    assert inbound.history == (Message("user", (Text("Hi"),)), Message("assistant", (Text("Hello"),)))
    assert inbound.parts == (Text("How"), Text("are you?"))
    assert (inbound.actor.id, inbound.key_scope) == ("u1", "agent")


async def test_a_message_may_be_the_output_of_a_tool(client: httpx.AsyncClient, taken):
    """Its content is the call of a tool, with the output where that is known; elsewhere it is refused."""
    known = {"role": "user", "tool_output": {"tool": "look", "input": {"a": 1}, "output": "It is."}}
    wanted = {"role": "user", "tool_output": {"tool": "calculate", "input": {"expression": "6 * 7"}}}
    run = (await client.post(PATH, json={"messages": [known, wanted]})).json()
    ((used, result),) = (message.parts for message in taken[0].history)
    assert (used.name, used.arguments, result.parts) == ("look", {"a": 1}, (Text("It is."),))
    assert [part.name for part in taken[0].parts] == ["calculate"]
    assert run["status"] == "completed"
    events = frames((await client.get(f"/v1/runs/{run['id']}/events")).text)
    (end,) = [frame.data for frame in events if frame.event == "tool.completed"][:1]
    assert end["parts"] == [{"type": "text", "text": "42"}]
    for wrong in ([wanted, known], [{**wanted, "text": "x"}], [{**wanted, "role": "assistant"}, known]):
        answer = await client.post(PATH, json={"messages": wrong})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), wrong
    unknown = {"role": "user", "tool_output": {"tool": "nothing", "input": {}}}
    answer = await client.post(PATH, json={"messages": [unknown]})
    assert answer.status_code == 422
    assert "tool_output.tool" in answer.text


async def test_a_run_in_a_session_is_its_actors(client: httpx.AsyncClient, taken):
    """A run that names a session and no actor speaks for the session's actor."""
    session = (await client.post("/v1/sessions", json={"agent": "assistant", "actor": "u1"})).json()
    run = (await client.post(PATH, json={"input": "Hi", "session": session["id"]})).json()
    assert run["session"] == session["id"]
    assert taken[0].actor.id == "u1"


async def test_input_is_needed_once(client: httpx.AsyncClient):
    """Neither or both of input and messages, a last word that is not the user's, a late system message: 422."""
    user, system, model = ({"role": role, "text": "x"} for role in ("user", "system", "assistant"))
    wrong = [
        {},
        {"input": "x", "messages": [user]},
        {"messages": []},
        {"messages": [user, model]},
        {"messages": [system]},
        {"messages": [user, system, user]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "parts": [{"type": "file", "file": "f"}]}]},
        {"input": "x", "timeout": -1},
        {"input": "x", "mode": "later"},
    ]
    for body in wrong:
        answer = await client.post(PATH, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), body


async def test_a_run_is_cancelled_once(client: httpx.AsyncClient, model):
    """Cancelling answers 202; when the run has ended, 200."""
    model.hold()
    run = (await client.post(PATH, json={"input": "Hi", "mode": "background"})).json()
    first = await client.post(f"/v1/runs/{run['id']}/cancel")
    await client.get(f"/v1/runs/{run['id']}/events")
    again = await client.post(f"/v1/runs/{run['id']}/cancel")
    assert [first.status_code, again.status_code] == [202, 200]
    assert again.json()["status"] == "cancelled"
