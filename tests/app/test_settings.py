"""Settings, and how a misconfigured start ends."""

import pytest

from agent_core.errors import ConfigError
from agent_core.providers.base import table
from app.cli.commands import list_agents
from app.doctor import doctor
from app.main import model_line
from app.models import notice
from app.settings import load_settings
from tests.cases import for_each


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """A folder with agents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()


def test_defaults_are_those_of_the_contract():
    """Unset means loopback, port 8000, SQLite in ./data, the demo provider and the open demo page."""
    settings = load_settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert str(settings.database) == "data/parley.db"
    assert settings.default_model == "demo"
    assert (settings.demo, settings.demo_rate) == (True, 50)
    assert settings.include_render
    assert (settings.chart_backend, settings.quickchart_url) == ("local", "https://quickchart.io")


def test_charts_are_drawn_elsewhere_where_the_settings_say_so(monkeypatch):
    """CHART_BACKEND and QUICKCHART_URL name a server for charts; PARLEY_INCLUDE_RENDER takes the tools out."""
    monkeypatch.setenv("CHART_BACKEND", "quickchart")
    monkeypatch.setenv("QUICKCHART_URL", "http://charts.internal:3400/")
    monkeypatch.setenv("PARLEY_INCLUDE_RENDER", "off")
    settings = load_settings()
    assert (settings.chart_backend, settings.quickchart_url) == ("quickchart", "http://charts.internal:3400")
    assert not settings.include_render


@for_each(
    "name, value, remedy",
    [
        ("CHART_BACKEND", "remote", "give local .* or quickchart"),
        ("QUICKCHART_URL", "quickchart.io", "give the address of a QuickChart server"),
        ("QUICKCHART_URL", "file:///etc/passwd", "give the address of a QuickChart server"),
        ("QUICKCHART_URL", "https://ann:geheim@quickchart.io", "without a name or password"),
        ("PARLEY_INCLUDE_RENDER", "perhaps", "give on or off"),
    ],
)
def test_a_setting_of_charts_that_cannot_work_names_the_remedy(monkeypatch, name, value, remedy):
    """An unknown backend or switch is refused, and an address that is not http(s) or holds a password."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{name} cannot be used .*{remedy}") as refused:
        load_settings()
    assert "geheim" not in str(refused.value)


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


@for_each(
    "given, open_page",
    [
        ({"HOST": "::"}, False),
        ({"HOST": "::1"}, True),
        ({"HOST": "127.0.0.1", "PARLEY_DEMO": "off"}, False),
        ({"HOST": "127.0.0.1", "PARLEY_DEMO": "off", "PARLEY_DEMO_PASSWORD": "open sesame"}, False),
        ({"HOST": "::", "PARLEY_DEMO_PASSWORD": "open sesame"}, True),
        ({"PARLEY_TRUSTED_PROXIES": "127.0.0.1"}, False),
        ({"PARLEY_PUBLIC_URL": "https://parley.example.com"}, False),
        ({"PARLEY_HOSTS": "parley.example.com"}, False),
        ({"PARLEY_PUBLIC_URL": "https://parley.example.com", "PARLEY_DEMO_PASSWORD": "open sesame"}, True),
    ],
)
def test_the_demo_page_is_for_this_machine_unless_it_has_a_password(monkeypatch, given, open_page):
    """Where others can reach the server the page is closed, unless PARLEY_DEMO_PASSWORD opens it."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert load_settings().demo is open_page


@for_each(
    "name, value",
    [
        ("HOST", "::"),
        ("PARLEY_TRUSTED_PROXIES", "10.0.0.1"),
        ("PARLEY_PUBLIC_URL", "https://parley.example.com"),
        ("PARLEY_HOSTS", "parley.example.com"),
    ],
)
def test_an_open_demo_page_that_others_reach_fails_the_start(monkeypatch, name, value):
    """PARLEY_DEMO=on without a password is refused where others than this machine reach the server."""
    monkeypatch.setenv("PARLEY_DEMO", "on")
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"PARLEY_DEMO: with {name} .* set PARLEY_DEMO_PASSWORD too"):
        load_settings()


def test_a_key_that_can_be_guessed_fails_the_start_where_others_reach_the_server(monkeypatch):
    """What may do everything has 24 characters or more there; on this machine alone any key will do."""
    monkeypatch.setenv("PARLEY_API_KEY", "abc")
    load_settings()
    monkeypatch.setenv("HOST", "10.0.0.1")
    with pytest.raises(ConfigError, match=r"PARLEY_API_KEY: with HOST set .*openssl rand -hex 32"):
        load_settings()
    monkeypatch.setenv("PARLEY_API_KEY", 24 * "a")
    load_settings()


def test_the_tool_context_of_the_demo_page_is_json(monkeypatch):
    """PARLEY_DEMO_TOOL_CONTEXT is a JSON object of bounded size; what was given is not repeated in the error."""
    monkeypatch.setenv("PARLEY_DEMO_TOOL_CONTEXT", '{"customer": "C-1"}')
    assert load_settings().demo_tool_context == {"customer": "C-1"}
    fault = r"PARLEY_DEMO_TOOL_CONTEXT cannot be used .* give a JSON object"
    for given in ("C-99", '["C-99"]', '{"customer": "' + 4_000 * "x" + '"}'):
        monkeypatch.setenv("PARLEY_DEMO_TOOL_CONTEXT", given)
        with pytest.raises(ConfigError, match=fault) as refused:
            load_settings()
        assert given not in str(refused.value)


def test_proxies_and_hosts_are_lists(monkeypatch):
    """Proxies are addresses and networks, hosts names with `*.` before some; capitals and last dots do not matter."""
    monkeypatch.setenv("PARLEY_TRUSTED_PROXIES", "127.0.0.1, 10.0.0.0/8 2001:db8::/32")
    monkeypatch.setenv("PARLEY_HOSTS", "Parley.Example.com., *.example.org, [2001:db8::1]")
    found = load_settings()
    assert [str(each) for each in found.proxies] == ["127.0.0.1/32", "10.0.0.0/8", "2001:db8::/32"]
    assert found.hosts == ("parley.example.com", "*.example.org", "2001:db8::1")


def test_origins_are_a_list_with_commas(monkeypatch):
    """Spaces and closing slashes do not matter."""
    monkeypatch.setenv("PARLEY_ORIGINS", "https://a.example/, http://b.example:3000")
    assert load_settings().origins == ("https://a.example", "http://b.example:3000")


@for_each(
    "given, sent",
    [
        ("HTTPS://A.Example", "https://a.example"),
        ("https://a.example:443", "https://a.example"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("*", "*"),
    ],
)
def test_origins_are_kept_as_browsers_send_them(monkeypatch, given, sent):
    """Capitals and the usual port would match nothing: browsers leave them out."""
    monkeypatch.setenv("PARLEY_ORIGINS", given)
    assert load_settings().origins == (sent,)


@for_each(
    "given",
    [
        "https://*.example.com",
        "https://a.example/page",
        "https://a.example?x",
        "a.example",
        "ftp://a.example",
        "https://",
        "https://a.example:0",
        "https://a.example:port",
        "https://me:pass@a.example",
        "https://a b.example",
        "https://ä.example",
        "null",
        "https://a.example, *.b.example",
    ],
)
def test_an_origin_that_matches_nothing_fails_the_start(monkeypatch, given):
    """Wildcards inside, paths and missing schemes, which no browser sends, are refused with the remedy."""
    monkeypatch.setenv("PARLEY_ORIGINS", given)
    with pytest.raises(ConfigError, match=r"PARLEY_ORIGINS .*give whole origins .*without a path"):
        load_settings()


def test_a_database_may_lie_anywhere(monkeypatch, tmp_path):
    """Three slashes are a relative path, four an absolute one."""
    monkeypatch.setenv("DATABASE_URL", "sqlite:///there/p.db")
    assert str(load_settings().database) == "there/p.db"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/p.db")
    assert load_settings().database == tmp_path / "p.db"


def test_on_postgres_all_processes_share_one_secret(monkeypatch):
    """Without PARLEY_SECRET_KEY a Postgres is refused, with it either way of writing the address will do."""
    for url in ("postgres://u:p@db/x", "postgresql://u@/x?host=/run/pg&sslmode=disable", "postgresql:///x"):
        monkeypatch.setenv("DATABASE_URL", url)
        monkeypatch.delenv("PARLEY_SECRET_KEY", raising=False)
        with pytest.raises(ConfigError, match="PARLEY_SECRET_KEY"):
            load_settings()
        monkeypatch.setenv("PARLEY_SECRET_KEY", "s" * 32)
        settings = load_settings()
        assert settings.postgres == url
        assert url not in repr(settings)


@for_each(
    "name, value, remedy",
    [
        ("PORT", "eighty", "number"),
        ("PORT", "70000", "number"),
        ("DATABASE_URL", "mysql://secret@db/x", "sqlite:///path"),
        ("DATABASE_URL", "sqlite://", "sqlite:///path"),
        ("DATABASE_URL", "postgres://u:secret#@db/x", "%23 for #"),
        ("DATABASE_URL", "postgres://u:secret@me@db/x", "%40 for @"),
        ("DATABASE_URL", "postgres://u:secret/word@db/x", "%2F for /"),
        ("DATABASE_URL", "postgres://u:secret@db:http/x", "host:5432"),
        ("DATABASE_URL", "sqlite:///agents", "file"),
        ("PARLEY_SECRET_KEY", "secret", "32 characters"),
        ("PARLEY_MAX_RUNS", "0", "1 or more"),
        ("PARLEY_MAX_BACKLOG", "0", "1 or more"),
        ("PARLEY_POOL", "1", "from 2"),
        ("PARLEY_GRACE", "soon", "seconds"),
        ("PARLEY_LOG", "xml", "text or json"),
        ("PARLEY_URL", "parley.example.com", "https://parley.example.com"),
        ("PARLEY_API_KEY", "secret words", "without spaces"),
        ("PARLEY_AGENTS", "nowhere", "folder"),
        ("PARLEY_MODEL", "anthropic:claude", "set it, or use another model"),
        ("PARLEY_MODEL", "anthropic:claude", "ANTHROPIC_API_KEY"),
        ("PARLEY_MODEL", "openai:gpt", "OPENAI_API_KEY"),
        ("PARLEY_MODEL", "openai-compatible:m", "OPENAI_BASE_URL"),
        ("PARLEY_MODEL", "openai:", "openai:<model>"),
        ("PARLEY_MODEL", "openai: gpt", "without spaces"),
        ("PARLEY_MODEL", "demo:fast", "provider:model"),
        ("PARLEY_MODEL", "acme:m", "no provider"),
        ("PARLEY_MODEL", "gpt", "provider:model"),
        ("PARLEY_DEMO", "maybe", "on or off"),
        ("PARLEY_DEMO_RATE", "-1", "deltas per second"),
        ("PARLEY_DEMO_RATE", "inf", "deltas per second"),
        ("PARLEY_ORIGINS", "example.com", "https://"),
        ("PARLEY_TRUSTED_PROXIES", "10.0.0.0/8, proxy.internal", "10.0.0.0/8"),
        ("PARLEY_TRUSTED_PROXIES", "0.0.0.0/0", "not every address"),
        ("PARLEY_TRUSTED_PROXIES", "10.0.0.7/8", "10.0.0.7 or"),
        ("PARLEY_HOSTS", "https://example.com", "without a scheme"),
        ("PARLEY_HOSTS", "example.com:443", "without a scheme, port"),
        ("PARLEY_HOSTS", "*", "*.example.com"),
        ("PARLEY_DEMO_PASSWORD", "secret", "8 characters"),
        ("PARLEY_MAX_CONNECTIONS", "0", "8 or more"),
        ("PARLEY_MAX_CONNECTIONS_PER_ADDRESS", "none", "1 or more"),
        ("OPENAI_BASE_URL", "http://localhost:1234/v1", "PARLEY_MODEL"),
        ("OPENAI_BASE_URL", "localhost:1234/v1", "http://localhost:11434/v1"),
        ("OPENAI_BASE_URL", "ftp://localhost/v1", "http://localhost:11434/v1"),
        ("OPENAI_BASE_URL", "http://localhost:99999/v1", "http://localhost:11434/v1"),
        ("OPENAI_BASE_URL", "https://me:secret@example.com/v1", "password"),
        ("ANTHROPIC_BASE_URL", "api.anthropic.com", "https://api.anthropic.com"),
        ("ANTHROPIC_BASE_URL", "https:///v1", "https://api.anthropic.com"),
        ("ANTHROPIC_BASE_URL", "https://example.com?key=secret", "https://api.anthropic.com"),
        ("ANTHROPIC_API_KEY", "secret words", "as the provider shows it"),
        ("OPENAI_API_KEY", "secret\u2026", "as the provider shows it"),
    ],
)
def test_what_cannot_work_fails_in_one_line(monkeypatch, name, value, remedy):
    """The one line names the setting and the remedy, and holds no secret."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    line = str(caught.value)
    assert (name in line, remedy in line) == (True, True), line
    assert "\n" not in line
    assert "secret" not in line.replace("PARLEY_SECRET_KEY", "")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://u:S3cr3tPw@h/x",
        "postgresql+psycopg://u:S3cr3tPw@h/x",
        "mysql://u:S3cr3tPw@h/x",
        "postgres:/u:S3cr3tPw@h/x",
        "Postgres://u:S3cr3tPw@h/x",
        "postgres://u:1/S3cr3tPw@h/x",
    ],
)
@pytest.mark.parametrize("find", ["serve", "command", "doctor", "list"])
def test_no_use_of_an_address_shows_its_password(monkeypatch, capsys, url, find):
    """What is no address of a database is refused by name, with the right form, by every command."""
    monkeypatch.setenv("DATABASE_URL", url)
    match find:
        case "doctor":
            assert not doctor(offline=True, env_file=None)
            line = capsys.readouterr().out.rstrip("\n")
        case "list":
            with pytest.raises(ConfigError) as caught:
                list_agents()
            line = str(caught.value)
        case _:
            with pytest.raises(ConfigError) as caught:
                load_settings(serving=find == "serve")
            line = str(caught.value)
    assert "DATABASE_URL" in line
    assert "://user:password@host" in line
    assert "\n" not in line
    assert "S3cr3tPw" not in line


def test_a_driver_in_the_address_is_named(monkeypatch):
    """SQLAlchemy's own form of an address is refused with what to leave out."""
    monkeypatch.setenv("DATABASE_URL", "postgresql+asyncpg://u:S3cr3tPw@h/x")
    with pytest.raises(ConfigError, match=r"write postgresql://.* without the \+"):
        load_settings()


URL = "http://localhost:11434/v1"


@for_each(
    "given, model, providers",
    [
        ({}, "demo", "demo"),
        ({"ANTHROPIC_API_KEY": "a"}, "anthropic:*", "demo anthropic"),
        ({"OPENAI_API_KEY": "o"}, "openai:*", "demo openai openai-compatible"),
        ({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "anthropic:*", "demo anthropic openai openai-compatible"),
        ({"ANTHROPIC_API_KEY": " ", "OPENAI_API_KEY": "o\n"}, "openai:*", "demo openai openai-compatible"),
        ({"ANTHROPIC_API_KEY": "a", "PARLEY_MODEL": "demo"}, "demo", "demo anthropic"),
        ({"ANTHROPIC_API_KEY": "a", "PARLEY_MODEL": "anthropic:m:1"}, "anthropic:m:1", "demo anthropic"),
        ({"OPENAI_API_KEY": "o", "PARLEY_MODEL": "openai:m"}, "openai:m", "demo openai openai-compatible"),
        ({"OPENAI_API_KEY": "o", "PARLEY_MODEL": "openai-compatible:m"}, "openai-compatible:m", None),
        ({"OPENAI_BASE_URL": URL, "PARLEY_MODEL": "openai-compatible:m"}, "openai-compatible:m", None),
        ({"OPENAI_BASE_URL": URL, "OPENAI_API_KEY": "o"}, "openai:*", "demo openai openai-compatible"),
        ({"OPENAI_BASE_URL": URL, "ANTHROPIC_API_KEY": "a"}, "anthropic:*", "demo anthropic openai-compatible"),
        ({"OPENAI_BASE_URL": URL, "PARLEY_MODEL": "demo"}, "demo", "demo openai-compatible"),
        ({"ANTHROPIC_BASE_URL": URL}, "demo", "demo"),
    ],
)
def test_the_model_follows_from_what_is_set(monkeypatch, given, model, providers):
    """PARLEY_MODEL, else the default of the Anthropic key, else of the OpenAI key, else the demo."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    provider = model.removesuffix(":*")
    assert settings.default_model == (f"{provider}:{table().defaults[provider]}" if provider != model else model)
    if providers is not None:
        assert " ".join(settings.providers) == providers


@for_each(
    "model, given, needs",
    [
        ("anthropic:m", {"OPENAI_API_KEY": "hush"}, "ANTHROPIC_API_KEY"),
        ("openai:m", {"ANTHROPIC_API_KEY": "hush"}, "OPENAI_API_KEY"),
        ("openai:m", {"OPENAI_BASE_URL": URL}, "OPENAI_API_KEY"),
        ("openai-compatible:m", {"ANTHROPIC_API_KEY": "hush"}, "OPENAI_BASE_URL"),
    ],
)
def test_a_model_without_its_key_names_the_key(monkeypatch, model, given, needs):
    """Another provider's key does not help, and the line that says so shows no key."""
    for name, value in {**given, "PARLEY_MODEL": model}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert str(caught.value).startswith(f"PARLEY_MODEL: `{model}` needs {needs}")
    assert "hush" not in str(caught.value)


def test_a_base_url_goes_without_its_last_slash(monkeypatch):
    """Addresses are kept as the SDKs want them."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://models.example/anthropic/ ")
    assert load_settings().anthropic_base_url == "https://models.example/anthropic"


def test_keys_are_shown_nowhere(monkeypatch):
    """What is printed of the settings, as a whole and in their sentences, holds no key."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PARLEY_API_KEY"):
        monkeypatch.setenv(name, "hush-hush")
    settings = load_settings()
    assert "hush" not in f"{settings!r} {settings} {model_line(settings)} {notice(settings)} {settings.model_dump()}"


@for_each(
    "given, words",
    [
        ({}, "set ANTHROPIC_API_KEY or OPENAI_API_KEY"),
        ({"PARLEY_MODEL": "demo"}, "set ANTHROPIC_API_KEY or OPENAI_API_KEY"),
        ({"PARLEY_MODEL": "demo", "OPENAI_API_KEY": "hush"}, "unset it, and the model of OPENAI_API_KEY answers"),
    ],
)
def test_the_demo_says_how_to_get_a_real_model(monkeypatch, given, words):
    """The greeting and the page say that this is a demonstration, and what to do for a model."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    for text in (model_line(settings), notice(settings)):
        assert "demonstration" in text
        assert words in text


def test_a_real_model_is_named(monkeypatch):
    """The greeting and the page name the model that answers, and who chose it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hush")
    settings, name = load_settings(), f"anthropic:{table().defaults['anthropic']}"
    assert model_line(settings) == f"{name}, the default of ANTHROPIC_API_KEY; PARLEY_MODEL names another"
    assert notice(settings) == f"Answers come from {name}."
    assert notice(settings, "openai:m") == "Answers come from openai:m."
    assert notice(settings, "demo").endswith(f"Its agent asks for `demo`; without that {name} answers.")
    monkeypatch.setenv("PARLEY_MODEL", "anthropic:m")
    assert model_line(load_settings()) == "anthropic:m"
