"""Settings of prompts: what holds for agents that do not say it themselves."""

import pytest

from agent_core.errors import ConfigError
from app.settings import load_settings
from tests.cases import for_each


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """A folder with agents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()


def test_defaults_of_agents_are_settings(monkeypatch):
    """Caching is on, a conversation idle after half an hour, the clock UTC, unless the environment says otherwise."""
    settings = load_settings()
    assert (settings.prompt_caching, settings.idle_refreeze, settings.clock) == (True, 1800, "UTC")
    monkeypatch.setenv("PARLEY_CLOCK", "off")
    monkeypatch.setenv("PARLEY_PROMPT_CACHING", "off")
    monkeypatch.setenv("PARLEY_IDLE_REFREEZE", "0")
    settings = load_settings()
    assert (settings.prompt_caching, settings.idle_refreeze, settings.clock) == (False, 0, "off")


@for_each(
    "name, value, remedy",
    [
        ("PARLEY_PROMPT_CACHING", "sometimes", "give on or off"),
        ("PARLEY_IDLE_REFREEZE", "-1", "give seconds, from 0 to 2592000"),
        ("PARLEY_IDLE_REFREEZE", "half an hour", "give seconds"),
        ("PARLEY_CLOCK", "CEST!", "give the IANA name of a time zone"),
    ],
)
def test_a_setting_of_prompts_that_cannot_work_names_the_remedy(monkeypatch, name, value, remedy):
    """A switch that is none, and a pause that is no time, end the start with one line."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{name} cannot be used .*{remedy}"):
        load_settings()
