"""What a session cost, over HTTP."""

import httpx


async def test_an_operator_reads_what_a_session_cost(client: httpx.AsyncClient):
    """Each call has its tokens, its bill or null, and the time; an unknown session answers 404."""
    session = (await client.post("/v1/sessions", json={"agent": "assistant"})).json()["id"]
    posted = (await client.post(f"/v1/sessions/{session}/messages", json={"text": "Hi"})).json()
    await client.get(f"/v1/runs/{posted['run_id']}/events")
    cost = (await client.get(f"/v1/sessions/{session}/cost")).json()
    assert (cost["session"], cost["unknown"], len(cost["calls"])) == (session, 2, 2)
    first = cost["calls"][0]
    assert (first["run"], first["n"], first["kind"], first["billed"]) == (posted["run_id"], 1, "step", None)
    assert first["asked_at"].endswith("Z")
    assert first["usage"]["input"] is None
    assert (await client.get("/v1/sessions/ses_none/cost")).status_code == 404
    assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
    assert (await client.get(f"/v1/sessions/{session}/cost")).status_code == 404
