"""The operating contract and the persona: plain, fixed texts before an agent's instructions."""

from agent_core.agent.frames import Frames, new_marker
from agent_core.agent.snapshot import RULES, contract_of, persona_text, snapshot_of
from agent_core.agents import Definition, Persona
from agent_core.events import ContextKind
from agent_core.messages import Actor
from tests.cases import for_each

WHOLE = Persona(defaults="Use euros.", avoid="Puns.", style="Short.\nPlain.", identity="You are Otto.")


def test_a_persona_is_its_texts_under_fixed_labels():
    """Whatever order an author wrote them in, the texts of a persona stand in one order; a long one is a paragraph."""
    assert persona_text(WHOLE) == (
        "Who you are: You are Otto.\n"
        "How you write:\nShort.\nPlain.\n"
        "What you avoid: Puns.\n"
        "Unless you are asked otherwise: Use euros."
    )


@for_each("persona", [None, Persona(), Persona(style=" \n ")])
def test_without_texts_there_is_no_persona(persona: Persona | None):
    """A persona without a text leaves nothing in the prompt."""
    assert persona_text(persona) == ""


def test_the_prompt_goes_from_what_is_stable_to_what_changes():
    """The contract comes first, then the persona, then the instructions; what others fill later has its place after."""
    made = snapshot_of(Definition(name="a", instructions="Sell tea.", persona=WHOLE), (), model="m")
    assert made.shared == f"{RULES}\n\n{persona_text(WHOLE)}\n\nSell tea."
    assert (made.skills, made.memory, made.profile, made.own) == ("", "", "", "")


def test_an_agent_s_own_contract_replaces_the_rules():
    """An agent that has a contract of its own has that alone; with an empty one its prompt is its instructions."""
    own = Definition(name="a", instructions="Sell tea.", operating_contract="Obey Ann.")
    assert snapshot_of(own, (), model="m").shared == "Obey Ann.\n\nSell tea."
    none = Definition(name="a", instructions="Sell tea.", operating_contract="")
    assert snapshot_of(none, (), model="m").shared == "Sell tea."


def test_the_rules_explain_every_frame():
    """Each kind of frame that the window shows is named in the rules, in the form that it has."""
    frames = Frames(new_marker())
    kinds: tuple[str, ...] = (*ContextKind.__args__, "speaker", "correction", "stopped")
    shown = [frames.context("note", "x"), frames.speaker(Actor("ann", "user")), frames.correction, frames.stopped]
    assert [text for text in shown if not (text.startswith("[") and text.endswith(f" {frames.marker}]"))] == []
    assert "`[name marker]`" in RULES
    assert "`[/name marker]`" in RULES
    assert [kind for kind in kinds if f"`{kind}`" not in RULES] == []
    assert len(frames.marker) == 10
    assert "ten random characters" in RULES


def test_the_rules_are_short():
    """The contract costs every first request of an agent at most about 400 tokens."""
    assert len(contract_of(None, ())) < 1800
