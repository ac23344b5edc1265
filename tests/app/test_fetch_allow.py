"""PARLEY_FETCH_ALLOW: the internal hosts that the guarded fetch may ask."""

import pytest

from agent_core.errors import ConfigError
from agent_core.net.fetch import Fetch
from app.settings import load_settings
from tests.cases import for_each


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """A folder with agents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()


def test_unset_allows_no_internal_host():
    """Without it only public addresses are asked."""
    assert load_settings().fetch_allow == ()


def test_the_setting_is_a_list(monkeypatch):
    """Entries are separated by commas or white space, and the fetch accepts them unchanged."""
    monkeypatch.setenv("PARLEY_FETCH_ALLOW", "wiki.internal:8080,10.0.0.7:80\n [::1]:8080,")
    found = load_settings().fetch_allow
    assert found == ("wiki.internal:8080", "10.0.0.7:80", "[::1]:8080")
    Fetch(found)


@for_each("entry", ["wiki.internal", "http://wiki.internal:80", "wiki:99999", "127.1:80", "*:80"])
def test_an_invalid_entry_stops_the_start(monkeypatch, entry):
    """An entry that is no host:port is named, with how it is written."""
    monkeypatch.setenv("PARLEY_FETCH_ALLOW", f"fine.internal:80, {entry}")
    with pytest.raises(ConfigError) as ended:
        load_settings()
    assert str(ended.value).startswith(f"PARLEY_FETCH_ALLOW: `{entry}` is no host:port; write wiki.internal:8080")


def test_a_password_is_not_shown(monkeypatch):
    """An entry with a name and password in it is named by its place."""
    monkeypatch.setenv("PARLEY_FETCH_ALLOW", "fine.internal:80, ann:s3cret@wiki.internal:80")
    with pytest.raises(ConfigError, match="PARLEY_FETCH_ALLOW: entry 2 is no") as ended:
        load_settings()
    assert "s3cret" not in str(ended.value)
