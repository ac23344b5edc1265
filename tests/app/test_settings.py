"""Settings, and how a misconfigured start ends."""

import pytest

from agent_core import ConfigError
from app.compose import notice
from app.main import model_line
from app.settings import Settings, check_model, load_settings

NAMES = [str(field.validation_alias) for field in Settings.model_fields.values()]


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """An environment without any setting, in a folder with agents."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()


def test_defaults_are_those_of_the_contract():
    """Unset means loopback, port 8000, SQLite in ./data, the demo provider and the open demo page."""
    settings = load_settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert str(settings.database) == "data/parley.db"
    assert settings.default_model == "demo"
    assert (settings.demo, settings.demo_rate) == (True, 50)


def test_an_empty_variable_is_unset(monkeypatch):
    """`PARLEY_API_KEY=` in a copied .env means nothing."""
    monkeypatch.setenv("PARLEY_API_KEY", "")
    assert load_settings().api_key is None


def test_the_environment_beats_the_file(tmp_path, monkeypatch):
    """`.env` is read, and what the environment says wins."""
    (tmp_path / ".env").write_text("PORT=9000\nPARLEY_DEMO=off\n# a comment\n")
    monkeypatch.setenv("PORT", "9001")
    settings = load_settings()
    assert (settings.port, settings.demo) == (9001, False)


@pytest.mark.parametrize(
    ("host", "demo", "open_page"),
    [("::", None, False), ("::1", None, True), ("::", "on", True), ("127.0.0.1", "off", False)],
)
def test_the_demo_page_is_for_loopback_unless_said(monkeypatch, host, demo, open_page):
    """Bound to every address the page is closed, unless PARLEY_DEMO opens it."""
    monkeypatch.setenv("HOST", host)
    if demo:
        monkeypatch.setenv("PARLEY_DEMO", demo)
    assert load_settings().demo is open_page


def test_origins_are_a_list_with_commas(monkeypatch):
    """Spaces and closing slashes do not matter."""
    monkeypatch.setenv("PARLEY_ORIGINS", "https://a.example/, http://b.example:3000")
    assert load_settings().origins == ("https://a.example", "http://b.example:3000")


def test_a_database_may_lie_anywhere(monkeypatch, tmp_path):
    """Three slashes are a relative path, four an absolute one."""
    monkeypatch.setenv("DATABASE_URL", "sqlite:///there/p.db")
    assert str(load_settings().database) == "there/p.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/p.db")
    assert load_settings().database == tmp_path / "p.db"


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("PORT", "eighty", "number"),
        ("PORT", "70000", "number"),
        ("DATABASE_URL", "mysql://secret@db/x", "sqlite:///path"),
        ("DATABASE_URL", "sqlite://", "sqlite:///path"),
        ("DATABASE_URL", "postgres://secret@db/x", "not built yet"),
        ("DATABASE_URL", "sqlite:///agents", "file"),
        ("PARLEY_SECRET_KEY", "secret", "32 characters"),
        ("PARLEY_API_KEY", "secret words", "without spaces"),
        ("PARLEY_AGENTS", "nowhere", "folder"),
        ("PARLEY_MODEL", "anthropic:claude", "not built yet"),
        ("PARLEY_MODEL", "openai:gpt", "not built yet"),
        ("PARLEY_MODEL", "openai-compatible:m", "not built yet"),
        ("PARLEY_MODEL", "acme:m", "no provider"),
        ("PARLEY_MODEL", "gpt", "provider:model"),
        ("PARLEY_DEMO", "maybe", "on or off"),
        ("PARLEY_DEMO_RATE", "-1", "deltas per second"),
        ("PARLEY_DEMO_RATE", "inf", "deltas per second"),
        ("PARLEY_ORIGINS", "example.com", "https://"),
        ("OPENAI_BASE_URL", "http://localhost:1234/v1", "PARLEY_MODEL"),
    ],
)
def test_what_cannot_work_fails_in_one_line(monkeypatch, name, value, remedy):
    """The one line names the setting and the remedy, and holds no secret."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    line = str(caught.value)
    assert name in line
    assert remedy in line
    assert "\n" not in line
    assert "secret" not in line.replace("PARLEY_SECRET_KEY", "")


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"])
def test_a_providers_key_falls_back_to_the_demo_and_says_so(monkeypatch, name):
    """As long as there are no real models the demo answers, and the greeting and the page name the key that is set."""
    monkeypatch.setenv(name, "hush")
    settings = load_settings()
    assert (settings.default_model, settings.unused_key) == ("demo", name)
    sentence = f"{name} is set, but this version has no real models yet: the demo answers"
    for text in (model_line(settings), notice(settings)):
        assert sentence in text
        assert "demonstration" in text
        assert "hush" not in text


def test_a_base_url_beside_a_key_is_no_fault(monkeypatch):
    """Only OPENAI_BASE_URL alone, without a key and a model, ends the start."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1234/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    assert load_settings().unused_key == "OPENAI_API_KEY"


def test_the_demo_without_a_key_asks_for_none():
    """Without a provider's key the greeting and the page say that this is a demonstration, and name no key."""
    settings = load_settings()
    for text in (model_line(settings), notice(settings)):
        assert "demonstration" in text
        assert "_API_KEY" not in text


def test_a_real_key_is_no_fault_when_the_model_is_named(monkeypatch):
    """PARLEY_MODEL=demo goes on beside a provider's key."""
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    monkeypatch.setenv("PARLEY_MODEL", "demo")
    settings = load_settings()
    assert (settings.default_model, settings.unused_key) == ("demo", None)
    assert "hush" not in repr(settings)


def test_demo_is_served():
    """The demo provider is the one that this version has."""
    check_model("demo", "PARLEY_MODEL")
