"""Outputs of the calls that a client executes, and streams of runs that wait."""

from tests.app.api.shop import LOOKS, WHERE, Open, Shop, asked, events, open_one
from tests.app.frames import frames
from tests.polling import PATIENCE

PATH = "/v1/agents/assistant/runs"


async def waiting(here: Shop) -> tuple[str, list[str]]:
    """Return the path of a run that waits for outputs, and the calls."""
    answer = await here.operator.post(PATH, json={"input": "Go"})
    assert (answer.status_code, answer.json()["status"]) == (200, "requires_action")
    return f"/v1/runs/{answer.json()['id']}", [call["call"] for call in answer.json()["pending"]]


async def test_outputs_let_a_run_go_on(shop: Open):
    """`wait` answers once the run needs the client; with all outputs, text or any JSON, it continues to its end."""
    here = await shop(LOOKS, declared=(WHERE,))
    run, (first, second) = await waiting(here)
    found = (await here.operator.get(run)).json()
    assert [(call["on"], call["tool"], call["arguments"]) for call in found["pending"]] == [
        ("client", "where", {"what": "home"}),
        ("client", "where", {"what": "work"}),
    ]
    outputs = [{"call": first, "output": None}, {"call": second, "error": "Lost."}]
    taken = await here.operator.post(f"{run}/tool-outputs", json={"outputs": outputs})
    assert (taken.status_code, taken.json()["id"]) == (200, found["id"])
    assert (await here.core.settled(found["id"], timeout=PATIENCE)).status == "completed"
    events = [frame for frame in frames((await here.operator.get(f"{run}/events")).text) if frame.id]
    ends = [(f.data["outcome"], f.data["parts"][0]["text"]) for f in events if f.event == "tool.completed"]
    assert ends == [("done", "null"), ("failed", "Lost.")]


async def test_outputs_that_no_run_waits_for_are_refused(shop: Open):
    """Unknown and repeated calls answer 422 with their place, answered ones 409; of such a request nothing is taken."""
    here = await shop(LOOKS, declared=(WHERE,))
    run, (first, second) = await waiting(here)
    good = {"call": first, "output": "here"}
    for outputs, path in (
        ([good, {"call": "call_none", "output": 1}], "outputs[1].call"),
        ([good, good], "outputs[1].call"),
    ):
        answer = await here.operator.post(f"{run}/tool-outputs", json={"outputs": outputs})
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path)
    assert len((await here.operator.get(run)).json()["pending"]) == 2
    assert (await here.operator.post(f"{run}/tool-outputs", json={"outputs": [good]})).status_code == 200
    for outputs in ([good], [{"call": second, "output": 1}, good]):
        again = await here.operator.post(f"{run}/tool-outputs", json={"outputs": outputs})
        assert (again.status_code, again.json()["code"]) == (409, "already_decided")
    assert [call["call"] for call in (await here.operator.get(run)).json()["pending"]] == [second]


async def test_what_is_no_output_is_refused(shop: Open):
    """Neither or both of output and error, no call, too many and unknown fields answer 422 with the field."""
    here = await shop(LOOKS, declared=(WHERE,))
    run, _ = await waiting(here)
    good = {"call": "c", "output": 1}
    for body, path in (
        ({}, "outputs"),
        ({"outputs": []}, "outputs"),
        ({"outputs": [{"call": "c"}]}, "outputs[0]"),
        ({"outputs": [{**good, "error": "e"}]}, "outputs[0]"),
        ({"outputs": [{"call": "c", "error": ""}]}, "outputs[0].error"),
        ({"outputs": [{"call": "", "output": 1}]}, "outputs[0].call"),
        ({"outputs": [{"output": 1}]}, "outputs[0].call"),
        ({"outputs": [{**good, "parts": []}]}, "outputs[0].parts"),
        ({"outputs": [{"call": f"c{n}", "output": 1} for n in range(101)]}, "outputs"),
        ({"outputs": [good], "model": "x"}, "model"),
    ):
        answer = await here.operator.post(f"{run}/tool-outputs", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path), body
    assert (await here.operator.post("/v1/runs/run_none/tool-outputs", json={"outputs": [good]})).status_code == 404


async def test_outputs_bring_changes_of_controls(shop: Open):
    """What the next step, the named ones and the rest may do comes with the outputs; the log has it but for secrets."""
    here = await shop(LOOKS, declared=(WHERE,))
    run, (first, second) = await waiting(here)
    changes = {
        "tool_choice": "none",
        "active_tools": ["look"],
        "step_rules": [{"step": 3, "tool_choice": "auto"}],
        "defaults": {"max_output_tokens": 99, "effort": "low"},
        "tool_context": {"token": "s3cret"},
    }
    outputs = [{"call": first, "output": 1}, {"call": second, "output": 2}]
    taken = await here.operator.post(f"{run}/tool-outputs", json={"outputs": outputs, **changes})
    assert taken.status_code == 200, taken.text
    events = frames((await here.operator.get(f"{run}/events")).text)
    changed = next(frame.data for frame in events if frame.event == "controls.changed")
    assert changed["next"] == {"tool_choice": "none", "active_tools": ["look"]}
    assert changed["defaults"] == {"max_output_tokens": 99, "effort": "low", "step_rules": changes["step_rules"]}
    step = [frame.data["controls"] for frame in events if frame.event == "step.started"][-1]
    assert (step["tool_choice"], step["max_output_tokens"]) == ("none", 99)
    assert not any("s3cret" in str(frame.data) for frame in events)
    assert "s3cret" not in taken.text


async def test_changes_that_cannot_be_followed_are_refused(shop: Open):
    """They answer 422 with the field, and no output is taken."""
    here = await shop(LOOKS, declared=(WHERE,))
    run, (first, _) = await waiting(here)
    good, rule = [{"call": first, "output": 1}], {"step": 2, "tool_choice": "none"}
    stop = {"type": "has_tool_call", "tool": "gone"}
    for changes, path in (
        ({"tool_choice": {"tool": "gone"}}, "tool_choice.tool"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"active_tools": ["gone"]}, "active_tools"),
        ({"step_rules": [{"step": 0, "tool_choice": "none"}]}, "step_rules[0].step"),
        ({"step_rules": [rule], "defaults": {"step_rules": [rule]}}, "step_rules"),
        ({"defaults": {"max_steps": 0}}, "defaults.max_steps"),
        ({"defaults": {"model": "scripted:other"}}, "defaults.model"),
        (
            {"defaults": {"stop_conditions": [stop]}},
            "defaults.stop_conditions[0].tool",
        ),
        ({"tool_context": {"token": "x" * 64_000}}, "tool_context"),
    ):
        answer = await here.operator.post(f"{run}/tool-outputs", json={"outputs": good, **changes})
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path), changes
    assert len((await here.operator.get(run)).json()["pending"]) == 2


async def test_controls_are_the_operators(shop: Open):
    """A visitor who sends more than outputs gets 403, and nothing is taken."""
    here = await shop(LOOKS, declared=(WHERE,))
    ada = await here.visitor()
    session, run = await asked(ada)
    calls = [frame.data["call"] for frame in await events(ada, session) if frame.event == "tool.pending"]
    for more in ({"tool_choice": "none"}, {"defaults": {}}, {"tool_context": {"user": "root"}}):
        body = {"outputs": [{"call": calls[0], "output": 1}], **more}
        answer = await ada.post(f"{run}/tool-outputs", json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert len((await here.operator.get(run)).json()["pending"]) == 2


async def test_a_run_that_ended_takes_no_outputs(shop: Open):
    """A cancelled run waits for nothing: its calls have ended."""
    here = await shop(LOOKS, declared=(WHERE,))
    run, (first, _) = await waiting(here)
    assert (await here.operator.post(f"{run}/cancel")).json()["status"] == "cancelled"
    answer = await here.operator.post(f"{run}/tool-outputs", json={"outputs": [{"call": first, "output": 1}]})
    assert (answer.status_code, answer.json()["code"]) == (409, "already_decided")


async def test_waiting_runs_and_sessions_say_so(shop: Open):
    """Run, session and their lists have the status `waiting`, and the pending call names its approval."""
    here = await shop()
    answer = await here.operator.post(PATH, json={"input": "Pay"})
    run = answer.json()
    assert (answer.status_code, run["status"], run["output"]["text"]) == (200, "waiting", "Paying.")
    asked = await open_one(here.operator)
    (pending,) = run["pending"]
    assert pending == {
        "call": asked["call"],
        "on": "approval",
        "tool": "pay",
        "arguments": {"amount": 5},
        "approval": asked["id"],
    }
    for path in ("/v1/runs", "/v1/sessions"):
        (listed,) = (await here.operator.get(path, params={"status": "waiting"})).json()["items"]
        assert listed["status"] == "waiting"
        assert (await here.operator.get(path, params={"status": "requires_action"})).json()["items"] == []


async def test_a_runs_stream_closes_at_a_wait_and_continues_after_it(shop: Open):
    """It ends with `run.waiting`; opened again after the decision, an answered wait closes nothing."""
    here = await shop()
    stream = await here.operator.post(PATH, json={"input": "Pay", "mode": "stream"})
    first = [frame for frame in frames(stream.text) if frame.id]
    assert first[-1].event == "run.waiting"
    run = f"/v1/runs/{stream.headers['Parley-Run']}"
    again = [frame for frame in frames((await here.operator.get(f"{run}/events")).text) if frame.id]
    assert again == first
    asked = await open_one(here.operator)
    await here.operator.post(f"/v1/approvals/{asked['id']}", json={"approved": True})
    for after in (0, first[-1].id):
        rest = [f for f in frames((await here.operator.get(f"{run}/events?after={after}")).text) if f.id]
        assert rest[-1].event == "run.completed"
        assert [f.id for f in rest] == list(range(rest[0].id or 0, (rest[-1].id or 0) + 1))
        events = [f.event for f in rest]
        assert events.index("approval.decided") < events.index("run.resumed") < events.index("tool.started")


async def test_an_idle_stream_ends_while_people_are_asked(shop: Open):
    """For `until=idle` a session whose run waits is idle."""
    here = await shop()
    run = (await here.operator.post(PATH, json={"input": "Pay"})).json()
    events = frames((await here.operator.get(f"/v1/sessions/{run['session']}/events?until=idle")).text)
    assert events[-1].event == "run.waiting"
