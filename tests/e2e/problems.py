"""Asking a server what it should refuse: every answer is held against the shape that errors have."""

from typing import Any

import httpx

from tests.e2e.server import KEY, SECRET

FIELDS = {"type", "title", "status", "code", "detail"}
TRACES = ("Traceback", 'File "', "/site-packages/", "sqlite3.", "sqlalchemy")


def refused(answer: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """Hold *answer* against the contract's shape of an error; return it."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text[:300]}"
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) <= FIELDS | {"errors"}
    assert set(problem) >= FIELDS
    assert problem["status"] == status
    assert code is None or problem["code"] == code, problem
    assert [error for error in problem.get("errors", []) if set(error) != {"path", "message"}] == []
    keeps_quiet(answer)
    return problem


def keeps_quiet(answer: httpx.Response) -> None:
    """Hold *answer* against the rule that no secret and no trace leaves the server."""
    said = f"{answer.headers} {answer.text}"
    for word in (KEY, SECRET, *TRACES):
        assert word not in said, f"{word!r} in {said[:500]}"
