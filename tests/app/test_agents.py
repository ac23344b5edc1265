"""Agent files."""

from pathlib import Path

import msgspec
import pytest
import yaml

from agent_core.agent.snapshot import snapshot_of
from agent_core.agents import Controls, DeclaredTool
from agent_core.channels import Channels
from agent_core.errors import ConfigError
from app.api.requests import AgentBody
from app.compose import CHANNELS
from tests.agent_core.shuffled import DECLARED, shuffled
from tests.app.agent_files import load_agents

TOOLS = ("calculate", "current_time")
KNOWN = Channels(CHANNELS)


def check(name: str, where: str) -> None:
    """Serve the demo alone."""
    if name != "demo":
        raise ConfigError(f"{where}: `{name}` is not here.")


SHIPPED = Path(__file__).parents[2] / "agents"


def test_the_shipped_agents_can_be_read():
    """The repository's own folder holds the assistant, whose tools are there."""
    assert [agent.name for agent in load_agents(SHIPPED, tools=TOOLS, channels=KNOWN, check=check)] == ["assistant"]


def test_files_become_definitions(tmp_path):
    """YAML files are read in the order of their names; other files are ignored."""
    (tmp_path / "b.yaml").write_text("name: bee\ninstructions: Buzz.\n")
    (tmp_path / "a.yml").write_text(
        "name: ant\ninstructions: Walk.\nmodel: demo\nfallback_models: [demo]\n"
        "controls: {max_steps: 3, max_output_tokens: 500, effort: low, temperature: 1}\n"
    )
    (tmp_path / "notes.txt").write_text("}{")
    ant, bee = load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)
    assert (ant.name, ant.fallback_models, bee.model) == ("ant", ("demo",), None)
    assert ant.controls == Controls(max_steps=3, max_output_tokens=500, effort="low", temperature=1.0)


def test_a_file_and_the_api_make_the_same_prompt(tmp_path):
    """An agent in YAML and one over HTTP, keys and numbers written in other ways, have one snapshot."""
    tool = {"name": "pick", "kind": "client", "description": "Pick.", "parameters": DECLARED.parameters}
    fields = {"tools": [tool], "persona": {"style": "Short.", "identity": "Otto."}, "idle_refreeze_s": 60}
    body = AgentBody.model_validate({"name": "ant", "instructions": "Walk.", **fields})
    other = {**fields, "tools": [{**tool, "parameters": shuffled(DECLARED).parameters}]}
    written = {"instructions": "Walk.", **dict(reversed(other.items())), "name": "ant"}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(written, sort_keys=False))
    (read,) = load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)
    first, second = (
        snapshot_of(made, [tool.spec for tool in made.tools if isinstance(tool, DeclaredTool)], model="demo")
        for made in (body.value(), read)
    )
    assert first == second
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    assert "Who you are: Otto." in first.shared


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "line "),
        ("just words", "Expected `object`"),
        ("name: a", "`instructions`"),
        ("name: a\ninstructions: b\nmodle: demo", "modle"),
        ("name: a\ninstructions: b\nlimits: {max_context_messages: many}", "`limits.max_context_messages`"),
        ("name: a\ninstructions: b\nhooks: yes", "`hooks`"),
        ("name: a\ninstructions: b\nhooks: [{event: Never, type: rule}]", "`hooks[0].event`"),
        ("name: a\ninstructions: b\ntools: [{name: x, kind: client}]", "tools[0]"),
        ("name: a\ninstructions: b\ntools: [clacluate]", "no tool `clacluate`"),
        ("name: a\ninstructions: b\nmodel: acme:m", "acme"),
        ("name: a\ninstructions: b\nmodel: openai:gpt", "`model`: `openai:gpt`"),
        ("name: a\ninstructions: b\ncontrols: {model: openai:gpt}", "`controls.model`: `openai:gpt`"),
        ("name: a\ninstructions: b\nfallback_models: [demo, openai:gpt]", "`fallback_models[1]`: `openai:gpt`"),
        ("name: a\ninstructions: b\ncompaction: {model: openai:gpt}", "`compaction.model`: `openai:gpt`"),
        ("name: a\ninstructions: b\ncompaction: {kind: squeeze}", "`compaction.kind`"),
        ("name: a\ninstructions: b\npersona: {mood: dark}", "mood"),
        ("name: a\ninstructions: b\npersona: {style: [short]}", "`persona.style`"),
        ("name: a\ninstructions: b\nidle_refreeze_s: -1", "`idle_refreeze_s`"),
        ("name: a\ninstructions: b\nidle_refreeze_s: half an hour", "`idle_refreeze_s`"),
        ("name: a\ninstructions: b\nprompt_caching: sometimes", "`prompt_caching`"),
        ("name: a\ninstructions: b\noperating_contract: [be nice]", "`operating_contract`"),
        ("name: a\ninstructions: b\ncontrols: {effort: huge}", "`controls.effort`"),
        ("name: a\ninstructions: b\ncontrols: {temperature: warm}", "`controls.temperature`"),
        ("name: ''\ninstructions: b", "must not be empty"),
        ("name: a\ninstructions: b\nslack: {default: 1}", "`slack.default`"),
        ("name: a\ninstructions: b\nslack: {channels: ['#general']}", "`slack.channels[0]`"),
        ("name: a\ninstructions: b\nslack: {mentions: true}", "mentions"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(tmp_path, text, message):
    """What cannot be used fails the start with one line: the file and what is wrong in it."""
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)
    line = str(caught.value)
    assert "a.yaml" in line
    assert message in line
    assert "\n" not in line


def test_bytes_that_are_no_text_are_named(tmp_path):
    """A file in another encoding asks for UTF-8."""
    (tmp_path / "a.yaml").write_bytes(b"name: \xe4")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)


def test_a_name_is_given_once(tmp_path):
    """Two files with the same name are both named."""
    for file in ("a.yaml", "b.yaml"):
        (tmp_path / file).write_text("name: ant\ninstructions: Walk.\n")
    with pytest.raises(ConfigError, match=r"b\.yaml.*a\.yaml"):
        load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)


def test_a_place_is_claimed_once(tmp_path):
    """Two files whose agents claim one channel fail the start with the file and both agents' names."""
    for name in ("ant", "bee"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\ninstructions: Be.\nslack: {{channels: [C1]}}\n")
    with pytest.raises(ConfigError, match=r"bee\.yaml: `slack\.channels`: `ant` and `bee` both claim .*`C1`"):
        load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)


HOOK = """
name: ant
instructions: Walk.
hooks:
  - event: PreToolUse
    type: http
    config:
      url: https://rules.example/
      secret: {secret}
"""


def test_a_secret_is_named_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file names the variable that holds a webhook's secret; the environment comes before `.env`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("HOOK_SECRET=from-the-file-0123\nOTHER=1\n")
    (tmp_path / "a.yaml").write_text(HOOK.format(secret="${HOOK_SECRET}"))
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    (ant,) = load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)
    assert ant.hooks[0].config["secret"] == "from-the-file-0123"
    monkeypatch.setenv("HOOK_SECRET", "from-the-environment\n")
    (ant,) = load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)
    assert ant.hooks[0].config["secret"] == "from-the-environment"


@pytest.mark.parametrize("given", [None, "", " "])
def test_a_secret_that_is_named_and_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None):
    """A variable that is not set fails the start with the file, the field and the variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    if given is not None:
        monkeypatch.setenv("HOOK_SECRET", given)
    (tmp_path / "a.yaml").write_text(HOOK.format(secret="${HOOK_SECRET}"))
    with pytest.raises(ConfigError, match=r"a\.yaml: `hooks\[0\]\.config\.secret`: .*`HOOK_SECRET`; set it"):
        load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)


def test_a_hook_that_cannot_be_asked_is_named_with_its_file(tmp_path: Path):
    """What no hook can be fails the start with the file and the field, and shows no secret."""
    (tmp_path / "a.yaml").write_text(HOOK.format(secret="tooshort"))
    with pytest.raises(ConfigError, match=r"a\.yaml: `hooks\[0\]\.config\.secret`") as caught:
        load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)
    assert "tooshort" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: a\ninstruction: b\n",
            "a.yaml: unknown field `instruction`; did you mean `instructions`? Known: `name`",
        ),
        ("name: a\ninstructions: b\ntool: []\n", "`tool`: unknown field `tool`; did you mean `tools`? Known: `name`"),
        ("name: a\ninstructions: b\nslak: {}\n", "unknown field `slak`; did you mean `slack`?"),
        (
            "name: a\ninstructions: b\nslack: {defalt: true}\n",
            "`slack.defalt`: unknown field `defalt`; did you mean `de",
        ),
        (
            "name: a\ninstructions: b\nlimits: {max_run: 1}\n",
            "`limits`: unknown field `max_run`; did you mean `max_runs`",
        ),
        (
            "name: a\ninstructions: b\nhooks: [{event: PreToolUse, type: approval, config: {timeot_s: 1}}]\n",
            "unknown field `timeot_s`; did you mean `timeout_s`? Known: `responders`",
        ),
        ("name: a\n", "missing required field `instructions`"),
    ],
)
def test_an_unknown_field_comes_with_the_likely_one(tmp_path: Path, text: str, message: str):
    """A field that is not there is an error with the file, the likely field and all that are known."""
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check)
    assert message in str(caught.value)


def test_an_unknown_tool_is_refused_with_the_likely_one_and_where_tools_come_from(tmp_path):
    """The line says what was probably meant, which tools there are, and where they are looked for."""
    (tmp_path / "a.yaml").write_text("name: a\ninstructions: b\ntools: [clacluate]")
    with pytest.raises(ConfigError) as caught:
        load_agents(tmp_path, tools=TOOLS, channels=KNOWN, check=check, looked_for="They are in `tools`.")
    assert str(caught.value).endswith(
        "there is no tool `clacluate` (did you mean `calculate`?); the tools are: calculate, current_time. "
        "They are in `tools`."
    )
