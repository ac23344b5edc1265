"""Visitors of an embedding page, as an operator lets them in."""

import httpx

INSTRUCTIONS = "Be brief; this is the operator's own business."


async def agent_showing(operator: httpx.AsyncClient, show: str) -> str:
    """Make an agent that shows so much of its tools, unless it is there; return its id."""
    known = await operator.get(f"/v1/agents/shows-{show}")
    if known.status_code == 200:
        return known.json()["id"]
    body = {
        "name": f"shows-{show}",
        "instructions": INSTRUCTIONS,
        "tools": ["calculate", "current_time"],
        "web": {"show_tools": show},
    }
    answer = await operator.post("/v1/agents", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def token_for(operator: httpx.AsyncClient, actor: str, agent: str, ttl: int = 600) -> str:
    """Return a visitor's token."""
    body = {"actor": {"id": actor, "name": actor.title()}, "agent": agent, "ttl": ttl}
    answer = await operator.post("/v1/web/visitor-tokens", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


async def opened_by(visitor: httpx.AsyncClient) -> str:
    """Open the visitor's session and return its path."""
    answer = await visitor.post("/v1/sessions", json={})
    assert answer.status_code == 201, answer.text
    return f"/v1/sessions/{answer.json()['id']}"
