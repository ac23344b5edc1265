"""The era of the protocol in which a test's client speaks with servers of both."""

import pytest

from agent_core.mcp import client


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The era: in the legacy one the client does not ask whether the server speaks another."""
    if request.param == "legacy":
        _take_for_legacy(monkeypatch)
    return request.param


@pytest.fixture
def legacy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the client take every server for one of the era before."""
    _take_for_legacy(monkeypatch)


def _take_for_legacy(monkeypatch: pytest.MonkeyPatch) -> None:
    made = client.Client
    monkeypatch.setattr(client, "Client", lambda *given, **more: made(*given, **{**more, "mode": "legacy"}))
