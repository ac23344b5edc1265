"""Folding: a text is read without what hides in it, in time that grows with its length."""

from agent_core.hooks.rules import MAX_MARKS, readings, wanted_forms


def test_a_letter_has_a_bounded_number_of_marks():
    """Marks beyond those of Unicode's stream-safe form are cut before they are sorted, also in what is looked for."""
    hostile = "a" + "\u0301\u0327" * 50_000
    for found in (readings(hostile), wanted_forms(hostile)):
        assert [len(each) for each in found if each != hostile]
        assert [each for each in found if each not in (hostile, hostile.casefold()) if len(each) > 1 + MAX_MARKS] == []


def test_a_word_under_many_marks_is_found():
    """A word is read through any number of marks on its letters."""
    assert any("delete" in each for each in readings("dele" + "\u0301\u0327" * 100 + "te"))
