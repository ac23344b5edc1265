"""The snapshot: the frozen prompt prefix of a session."""

import os
import subprocess
import sys
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent_core.agent.snapshot import contract_of, freeze, snapshot_of, variant
from agent_core.agents import Definition, Persona, Snapshot
from tests.agent_core.history import spec
from tests.agent_core.shuffled import DECLARED, shuffled

TOOLS = [spec("a"), spec("b", effect="write"), spec("c", timeout=1.0)]


@given(st.permutations(TOOLS))
def test_the_order_of_tools_is_always_the_same(tools):
    """A snapshot lists its tools by name, whatever order they came in, and its hash does not depend on it."""
    snapshot = freeze(model="m", instructions="i", tools=tools)
    assert [tool.name for tool in snapshot.tools] == ["a", "b", "c"]
    assert snapshot == freeze(model="m", instructions="i", tools=TOOLS)


def test_the_hash_names_what_the_model_sees():
    """Two snapshots have the same hash exactly when model, instructions, tool names, texts and schemas are the same."""
    base = freeze(model="m", instructions="i", tools=[spec("a")])
    others = [
        freeze(model="n", instructions="i", tools=[spec("a")]),
        freeze(model="m", instructions="j", tools=[spec("a")]),
        freeze(model="m", instructions="i", tools=[spec("b")]),
        freeze(model="m", instructions="i", tools=[]),
        freeze(model="m", instructions="i", tools=[spec("a"), spec("b")]),
    ]
    assert len({each.hash for each in (base, *others)}) == len(others) + 1
    behaves_otherwise = spec("a", effect="write", timeout=9.0, concurrency_safe=True, result_limit=7)
    assert freeze(model="m", instructions="i", tools=[behaves_otherwise]).hash == base.hash


def test_a_hash_is_short_and_plain():
    """A snapshot's hash is 16 hexadecimal digits."""
    digest = freeze(model="m", instructions="i", tools=[]).hash
    assert len(digest) == 16
    assert int(digest, 16) >= 0


TEXTS = ("contract", "persona", "skills", "memory", "profile")
KEYS = st.text("abc", max_size=3)
SCHEMAS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, -1.25]) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, SCHEMAS, max_size=4))
def test_equal_parameters_are_equal_bytes(parameters: dict[str, object]):
    """However an author orders keys and writes whole numbers, a snapshot has the same hash and the same bytes."""
    tool = msgspec.structs.replace(DECLARED, parameters=parameters)
    made, other = (freeze(model="m", instructions="i", tools=[each.spec]) for each in (tool, shuffled(tool)))
    content = msgspec.json.encode(made)
    assert msgspec.json.encode(other) == content
    assert made.tools[0].parameters == parameters
    assert msgspec.json.encode(msgspec.json.decode(content, type=Snapshot)) == content, "also once it was stored"


def test_lists_keep_their_order():
    """What a schema lists stays as it is listed, and numbers with a fraction, booleans and large floats stay too."""
    listed = {"enum": ["b", "a", True, 0.5, 1e300], "required": ["z", "a"]}
    tool = msgspec.structs.replace(DECLARED, parameters=listed)
    kept = freeze(model="m", instructions="i", tools=[tool.spec]).tools[0].parameters
    assert msgspec.json.encode(kept) == msgspec.json.encode(listed)


def test_another_process_makes_the_same_snapshot():
    """A process with another seed for its hashes, and another order of keys, has the same hash and bytes."""
    program = (
        "import sys, msgspec; from agent_core.agent.snapshot import freeze;"
        "from tests.agent_core.shuffled import DECLARED, shuffled;"
        "made = freeze(model='m', instructions='i', tools=[shuffled(DECLARED).spec], persona='p');"
        "sys.stdout.buffer.write(msgspec.json.encode(made))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert done.stdout == msgspec.json.encode(freeze(model="m", instructions="i", tools=[DECLARED.spec], persona="p"))


def test_every_text_is_named_by_the_hash():
    """A text changes the hash wherever it stands in the prompt, and in each place to another one."""
    texts: list[dict[str, Any]] = [{name: "x"} for name in TEXTS]
    made = [freeze(model="m", instructions="i", tools=[], **text) for text in texts]
    plain = freeze(model="m", instructions="i", tools=[])
    assert len({each.hash for each in (*made, plain)}) == len(TEXTS) + 1
    assert freeze(model="m", instructions="i", tools=[], persona="").hash == plain.hash


DEFINITION = Definition(name="a", instructions="Sell tea.", persona=Persona(style="Short."))


def test_a_run_changes_only_what_it_brings():
    """Instructions of a run replace the agent's alone; a model of a run, and other tools, leave the texts."""
    own = snapshot_of(DEFINITION, [spec("a")], model="m")
    asked = variant(own, DEFINITION, instructions="Be rude.", model="n")
    assert (asked.instructions, asked.model) == ("Be rude.", "n")
    assert (asked.contract, asked.persona, asked.tools) == (own.contract, own.persona, own.tools)
    shows = variant(own, DEFINITION, tools=[spec("a"), spec("render_table")])
    assert shows.contract == contract_of(None, ["a", "render_table"])
    assert (shows.instructions, shows.persona) == (own.instructions, own.persona)
    assert variant(shows, DEFINITION, tools=own.tools) == variant(own, DEFINITION) == own


def test_what_a_session_has_frozen_survives_a_run():
    """Texts that a definition does not hold stay as they were frozen, whatever a run brings."""
    own = freeze(model="m", instructions="i", tools=[], contract="c", skills="s", memory="k", profile="Ann")
    for asked in (variant(own, DEFINITION, instructions="x"), variant(own, DEFINITION, tools=[spec("a")])):
        assert (asked.skills, asked.memory, asked.profile) == ("s", "k", "Ann")


STORED = (
    b'{"hash":"0123456789abcdef","model":"m","instructions":"Sell tea.\\n\\nShow rows with `render_table`.",'
    b'"tools":[{"name":"look","description":"d","parameters":{"type":"object","properties":{}}}]}'
)


def test_a_snapshot_from_before_there_was_a_contract_is_read_as_it_is():
    """Its hash and the bytes of its prompt stay; a run's other instructions come with the contract."""
    old = msgspec.json.decode(STORED, type=Snapshot)
    assert (old.hash, old.shared) == ("0123456789abcdef", "Sell tea.\n\nShow rows with `render_table`.")
    assert list(old.tools[0].parameters) == ["type", "properties"]
    assert variant(old, DEFINITION, model="n").shared == old.shared
    asked = variant(old, DEFINITION, instructions="Be rude.")
    assert asked.shared == f"{contract_of(None, ['look'])}\n\nBe rude."
    assert variant(old, DEFINITION, tools=()).instructions == "Sell tea."


def test_no_new_snapshot_has_the_name_of_a_stored_one():
    """Stored ones may have keys in another order: the hash that they were given is given to no other bytes."""
    made = freeze(model="m", instructions="i", tools=[])
    assert made.hash != "3b2ae92e4b00fde1"
