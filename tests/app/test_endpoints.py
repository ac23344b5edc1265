"""Named providers: what a file or the environment says of them, and what is asked then."""

import json
import re
from pathlib import Path

import pytest

from agent_core.agent.snapshot import freeze
from agent_core.agents import Controls
from agent_core.clock import SystemClock
from agent_core.errors import ConfigError
from agent_core.messages import Message, Text
from agent_core.providers.base import CallFailed, Request, find, sees
from agent_core.testing import fail, say, usage
from agent_core.testing.models import FakeModels
from app.models import running_models
from app.settings import (
    DEFAULT_FILE,
    Settings,
    check_agents_model,
    check_model,
    load_settings,
    read_endpoints,
    with_providers,
)

AZURE = """
azure:
  kind: openai
  base_url: {url}
  headers: {{api-key: "${{AZURE_KEY}}"}}
  query: {{api-version: preview}}
ollama:
  kind: openai-compatible
  base_url: http://localhost:11434/v1
claude-eu:
  kind: anthropic
  key: ${{EU_KEY}}
"""
SECRET = "azure-secret-3141592653"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, whose environment has two keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AZURE_KEY", SECRET)
    monkeypatch.setenv("EU_KEY", "eu-secret")
    (tmp_path / "agents").mkdir()
    return tmp_path


def write(text: str) -> None:
    Path(DEFAULT_FILE).write_text(text)


def test_file_defines_providers_beside_those_of_the_environment(folder: Path, monkeypatch):
    """OpenAI, Azure, Ollama and a second key of Anthropic are there at once, each under its own name."""
    write(AZURE.format(url="https://x.openai.azure.com/openai/v1"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-plain")
    monkeypatch.setenv("PARLEY_MODEL", "azure:gpt-6.1-sol")
    settings = load_settings(None)
    assert settings.providers == ("demo", "openai", "openai-compatible", "azure", "ollama", "claude-eu")
    assert settings.endpoints["azure"].headers["api-key"].get_secret_value() == SECRET
    assert settings.listed_as("azure:gpt-6.1-sol") == "openai:gpt-6.1-sol"
    assert settings.listed_as("ollama:gpt-6.1-sol") == "openai-compatible:gpt-6.1-sol"
    assert settings.listed_as("openai:gpt-6.1-sol") == "openai:gpt-6.1-sol"
    for model in ("azure:gpt-6.1-sol", "ollama:qwen3", "claude-eu:claude-opus-5-5", "openai:gpt-6.1-sol"):
        check_model(settings, model, "here")
    assert SECRET not in f"{settings!r} {settings.endpoints!r}"


def test_an_entry_says_which_of_its_models_see_pictures(folder: Path):
    """All, none, or those whose names are listed; what it does not say is assumed."""
    write(
        "one: {kind: openai, key: k, vision: false}\ntwo: {kind: openai, key: k, vision: [qwen-vl*]}\n"
        "three: {kind: openai, key: k}\n"
    )
    found = read_endpoints(None, None)
    assert [sees(f"{name}:{model}", found[name].vision) for name in found for model in ("qwen-vl-8b", "qwen")] == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]


def test_environment_takes_the_same_as_json(folder: Path, monkeypatch):
    """PARLEY_PROVIDERS is a path, or the records themselves; what is in it is never shown."""
    record = {"router": {"kind": "openai-compatible", "base_url": "https://openrouter.ai/api/v1", "key": SECRET}}
    monkeypatch.setenv("PARLEY_PROVIDERS", json.dumps(record))
    monkeypatch.setenv("PARLEY_MODEL", "router:openai/gpt-6.1-sol")
    settings = load_settings(None)
    assert settings.providers == ("demo", "router")
    assert SECRET not in repr(settings)


def test_providers_alone_name_no_model(folder: Path):
    """As with OPENAI_BASE_URL alone a start asks for PARLEY_MODEL rather than show the demo."""
    write(AZURE.format(url="https://x.example/v1"))
    with pytest.raises(ConfigError, match=r"set PARLEY_MODEL too \(azure:<model>, or demo\)"):
        load_settings(None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- a", "providers.yaml: gives no providers"),
        ("a: {", "providers.yaml: line"),
        ("x: {kind: openai, key: k}", "`x`: is no name of a provider; give 2 to 40 small letters"),
        ("demo: {kind: openai, key: k}", "`demo`: is no name of a provider"),
        ("azure: text", "`azure`: is no record"),
        ("azure: {kind: azure, key: k}", "`azure`: `kind` must be one of `anthropic`, `openai`, `openai-compatible`"),
        ("openai: {kind: anthropic, key: k}", "`openai`: is of the kind `anthropic`; give it another name"),
        ("azure: {kind: openai, keys: k}", "`azure`: has no field `keys`; did you mean `key`?"),
        ("azure: {kind: openai}", "`azure`: has neither `key` nor `headers`"),
        ("vllm: {kind: openai-compatible, key: k}", "`vllm`: has no `base_url`"),
        ("azure: {kind: openai, key: '${NO_SUCH_KEY} hush'}", "`azure`: `key`: is not one word"),
        ("azure: {kind: openai, key: 'hush hush'}", "`azure`: `key`: is not one word"),
        ("azure: {kind: openai, key: k, base_url: 'ftp://x'}", "`azure`: `base_url` is no http address"),
        ("azure: {kind: openai, key: k, base_url: 'https://x/?hush=1'}", "`azure`: `base_url` is no http address"),
        ("azure: {kind: openai, key: k, headers: {Host: hush}}", "`azure`: `headers`: `Host` cannot be set"),
        ('azure: {kind: openai, key: k, headers: {x-y: "hush\\nz: 1"}}', "`azure`: `headers.x-y` is not one line"),
        ("azure: {kind: openai, key: k, query: {api-version: 2024-10-21}}", "`query.api-version`: is no text; write"),
        ("azure: {kind: openai, key: k, vision: hush}", "`azure`: `vision` says not which models see pictures; give"),
        ("azure: {kind: openai, key: k, query: hush}", "`azure`: `query` gives no names and texts"),
    ],
)
def test_mistake_is_one_line_with_place_entry_and_remedy(folder: Path, text: str, fault: str):
    """What is wrong is named, what was given is not: it may be a secret."""
    write(text)
    with pytest.raises(ConfigError) as raised:
        read_endpoints(None, None)
    assert fault in str(raised.value)
    assert "hush" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_variable_that_is_not_set_costs_its_entry_alone(folder: Path, monkeypatch):
    """The others can be asked; PARLEY_MODEL cannot ask this one, and hears all that it lacks, and where."""
    write("gpt: {kind: openai, key: '${NO_KEY}', headers: {x-y: '${NO_TEXT}'}}\nlocal: {kind: openai, key: k}\n")
    monkeypatch.setenv("PARLEY_MODEL", "local:m")
    settings = load_settings(None)
    assert settings.providers == ("demo", "local")
    lacks = "NO_KEY (providers.yaml: `gpt`: `key`) and NO_TEXT (providers.yaml: `gpt`: `headers.x-y`)"
    assert settings.needs["gpt"] == lacks
    assert {"local", "demo"}.isdisjoint(settings.needs)
    monkeypatch.setenv("PARLEY_MODEL", "gpt:m")
    with pytest.raises(ConfigError, match=rf"^PARLEY_MODEL: `gpt:m` needs {re.escape(lacks)}; set it"):
        load_settings(None)


def test_entry_of_a_kind_without_its_variable_stands_for_the_environments(folder: Path, monkeypatch):
    """The key of the environment is not sent instead: the entry may mean another server."""
    write("openai: {kind: openai, key: '${NO_KEY}', base_url: 'https://x.example/v1'}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-plain")
    monkeypatch.setenv("PARLEY_MODEL", "demo")
    settings = load_settings(None)
    assert settings.providers == ("demo", "openai-compatible")
    assert settings.needs["openai"] == "NO_KEY (providers.yaml: `openai`: `key`)"


@pytest.mark.parametrize("model", ["old", "old:", "old:a b", "demo:x", "openai:"])
def test_model_of_an_agent_that_is_malformed_is_refused(folder: Path, model: str):
    """Only its provider may be missing."""
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    check_agents_model(settings, "old:model", "here")
    with pytest.raises(ConfigError, match=r"^here: "):
        check_agents_model(settings, model, "here")


def test_file_that_is_asked_for_must_be_there(folder: Path):
    """The default file may be missing, one that PARLEY_PROVIDERS names may not."""
    assert read_endpoints(None, None) == {}
    with pytest.raises(ConfigError, match=r"`other\.yaml` cannot be read"):
        read_endpoints("other.yaml", None)


def request(model: str) -> Request:
    class Hello:
        message = Message("user", (Text("Hi"),))
        wire = b'{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}'

    snapshot = freeze(model=model, instructions="Be brief.", tools=())
    return Request(model=model, snapshot=snapshot, messages=(Hello(),), controls=Controls(), session="ses_1")


async def test_azure_gets_its_query_and_header_with_every_request(folder: Path):
    """The first request is the SDK's, later ones are built by us: each has the API version and the key, and no other.

    An error that repeats the key is shown without it.
    """
    answers = [
        (say("One."), usage(input=9, output=2)),
        (say("Two."), usage(input=9, output=2)),
        (fail("auth", message=f"{SECRET} is not valid", retryable=False),),
        (say("Three."),),
    ]
    async with FakeModels(answers, check=False) as server:
        write(AZURE.format(url=f"{server.url}/v1"))
        settings = with_providers(Settings(_env_file=None, model="azure:gpt-6.1-sol"), None)  # type: ignore[call-arg]
        async with running_models(settings, SystemClock()) as found:
            azure = found.providers["azure"]
            outcomes = []
            for _ in answers:
                deltas = [delta async for batch in azure.stream(request("gpt-6.1-sol")) for delta in batch]
                outcomes += [delta.message for delta in deltas if isinstance(delta, CallFailed)]
            able = azure.able("gpt-6.1-sol")
        asked = server.asked
    assert len(asked) == len(answers), outcomes
    for each in asked:
        assert each.query == {"api-version": "preview"}, each
        assert each.headers["api-key"] == SECRET
        assert "authorization" not in each.headers
    assert len(outcomes) == 1, outcomes
    (refused,) = outcomes
    assert "`azure`" in refused
    assert SECRET not in refused
    assert able.listed_as == "openai:gpt-6.1-sol"
    assert find(able.listed_as).price is not None


AMBIENT = {
    "ANTHROPIC_CUSTOM_HEADERS": "X-Gate: anthropic-gate",
    "OPENAI_CUSTOM_HEADERS": "X-Gate: openai-gate",
    "OPENAI_ORG_ID": "org-1",
    "OPENAI_PROJECT_ID": "proj-1",
}
NAMED = """
one: {{kind: anthropic, key: key-of-one, base_url: "{url}"}}
two: {{kind: openai, key: key-of-two, base_url: "{url}/v1"}}
three: {{kind: openai-compatible, key: key-of-three, base_url: "{url}/v1"}}
"""


async def test_headers_of_the_environment_are_for_its_own_providers(folder: Path, monkeypatch):
    """What the SDKs read in the environment is for the keys beside it, not for every endpoint of the same kind."""
    for name, value in AMBIENT.items():
        monkeypatch.setenv(name, value)
    async with FakeModels(lambda asked: [say("Hi.")], check=False) as server:
        write(NAMED.format(url=server.url))
        keys = {"anthropic_api_key": "a", "openai_api_key": "o"}
        urls = {"anthropic_base_url": server.url, "openai_base_url": f"{server.url}/v1"}
        settings = with_providers(Settings(_env_file=None, **keys, **urls), None)  # type: ignore[call-arg]
        async with running_models(settings, SystemClock()) as found:
            names = ("one", "two", "three", "anthropic", "openai", "openai-compatible")
            for name in names:
                async for _ in found.providers[name].stream(request("gpt-6.1-sol")):
                    continue
        sent = dict(zip(names, (each.headers for each in server.asked), strict=True))
    secrets = ("x-gate", "openai-organization", "openai-project")
    seen = {name: [headers[each] for each in secrets if each in headers] for name, headers in sent.items()}
    of_openai = ["openai-gate", "org-1", "proj-1"]
    assert seen == {
        "one": [],
        "two": [],
        "three": [],
        "anthropic": ["anthropic-gate"],
        "openai": of_openai,
        "openai-compatible": of_openai,
    }
    keys = [sent[name]["authorization"] for name in names[:3]]
    assert keys == ["Bearer key-of-one", "Bearer key-of-two", "Bearer key-of-three"]
