"""Tables that a model writes by hand, on a terminal that shows text as it was written."""

from hypothesis import given
from hypothesis import strategies as st

from channels.terminal import aligned_tables, before_table
from tests.cases import for_each

WRITTEN = "Here:\n\n| Name | People |\n|---|---|\n| Oslo `x\\|y` | 717,710 |\n| Bergen | 9 |\n\nThat is all | of it."
ALIGNED = (
    "Here:\n\nName         People\n----------  -------\n"
    "Oslo `x|y`  717,710\nBergen            9\n\nThat is all | of it."
)
PARTS = st.sampled_from(
    ["| a | b |\n", "|---|--:|\n", "| 1 | 2 |\n", "text\n", "\n", "```\n", "> | q |\n", "a | b", "-", "|"]
)


def test_a_table_written_by_hand_is_aligned():
    """Cells are padded, numbers are right, and the text around the table is as it was."""
    assert aligned_tables(WRITTEN, None) == ALIGNED


def test_a_table_written_by_hand_keeps_the_width():
    """Cells continue on the next line where there is little room, and `<br>` ends a line."""
    text = "| a | b |\n|:-:|---|\n| x | one two three four five<br>six |"
    assert aligned_tables(text, 20) == "a  b\n-  -----------------\nx  one two three\n   four five\n   six"


@for_each("text", ["```\n| a |\n|---|\n```", "> | a |\n> |---|", "a | b\n\n- | c |\n  |---|", "| a | b"])
def test_what_is_no_table_of_its_own_stays(text: str):
    """Code, quotes, items of lists and lines with a bar are as they were written."""
    assert aligned_tables(text, 80) == text


def test_a_table_of_too_many_cells_stays():
    """A table that no screen has room for is not read cell by cell."""
    text = "|" + " a |" * 3000 + "\n|" + "---|" * 3000 + "\n|" * 1000
    assert aligned_tables(text, 80) == text


@given(st.lists(PARTS, max_size=12), st.data())
def test_a_text_with_tables_only_grows(parts: list[str], data: st.DataObject):
    """What is shown of a text that grows is the beginning of what is shown of all of it."""
    text = "".join(parts)
    begun = text[: data.draw(st.integers(0, len(text)))]
    assert aligned_tables(text, 40).startswith(aligned_tables(begun[: before_table(begun)], 40).rstrip("\n"))


def test_a_table_that_grows_is_held_back():
    """Its rows are shown together, once a line without a cell has ended it."""
    assert before_table("Hi.\n\n| a |\n|--") == 5
    assert before_table("Hi.\n| a |\n|---|\n| 1 |\n") == 4
    assert before_table("Hi.\n\n| a |\n|---|\n| 1 |\n\n") == 24
    assert before_table("a | b\nc") == 7
