"""What is left of an answer with sources once a person is forgotten."""

from agent_core.store.erasing import DELETED, ForgottenPerson, redacted

WHO = ForgottenPerson(id="ann@example.com", pseudonym="person_1")
CITED = {"start": 8, "end": 16, "title": "Oslo", "url": "https://a.example"}


def answer(text: str) -> dict:
    native = {"model": "anthropic:claude-opus-5", "pieces": ['{"type":"text","text":', [0, 8, 16], "}"]}
    return {"message": "m", "parts": [{"type": "text", "text": text, "citations": [CITED]}], "native": native}


def test_an_answer_that_is_changed_names_no_stretches_of_its_text():
    """Where words of an answer become others, its native items go, and its sources stay without their places."""
    left = redacted("message.completed", answer("Dear ann@example.com, rain."), WHO)
    cited = {"title": "Oslo", "url": "https://a.example"}
    assert left["parts"] == [{"type": "text", "text": "Dear person_1, rain.", "citations": [cited]}]
    assert "native" not in left
    same = answer("Today, it rains.")
    assert redacted("message.completed", same, WHO) == same


def test_of_an_answer_to_the_person_no_source_is_left():
    """What a person was answered is deleted with what it was quoted from."""
    left = redacted("message.completed", answer("Today, it rains."), WHO, theirs=True)
    assert left["parts"] == [{"type": "text", "text": DELETED}]


def test_why_a_compaction_failed_goes_as_a_summary_does():
    """Either may say in other words what the person wrote, in a run that answered someone else too."""
    failed = {"model": "anthropic:claude-opus-5", "code": "refused", "message": "I will not write of Ann's hernia."}
    wrote = ForgottenPerson(id=WHO.id, pseudonym=WHO.pseudonym, wrote=True)
    assert redacted("compaction.failed", failed, wrote) == {**failed, "message": DELETED}
    assert redacted("compaction.failed", failed, WHO, theirs=True) == {**failed, "message": DELETED}
    assert redacted("compaction.failed", failed, WHO) == failed


def test_a_denied_call_names_no_one_who_is_forgotten():
    """Its text says who denied it, by a name of one word too, which is looked for nowhere else."""
    ann = ForgottenPerson(id=WHO.id, pseudonym=WHO.pseudonym, names=("A\u200bnn\n",))
    said = [{"type": "text", "text": "Not run: Ann did not approve this call. The reason: Ann Street is closed."}]
    left = redacted("tool.completed", {"call": "c", "outcome": "denied", "parts": said}, ann)
    assert left["parts"][0]["text"] == "Not run: a person did not approve this call. The reason: Ann Street is closed."
