"""A table in Slack: how numbers, dates, empty, long and many cells are shown, and what each plainer form is."""

from typing import Any

from channels.slack.charts import ladder_of
from channels.slack.tables import MESSAGE, CsvUpload, Form
from channels.slack.testing.blocks import check
from channels.spec import ShownRender
from tests.cases import for_each
from tests.channels.slack.outbound.drawn.renders import table

WEEK = {"key": "week", "label": "Week", "format": "date"}
ORDERS = {"key": "orders", "label": "Orders", "format": "integer"}


def form(render: ShownRender, step: int = 0) -> Form:
    """Return the form of *render* at *step*, which Slack takes."""
    ladder = ladder_of(render)
    assert ladder is not None
    choice = ladder.best(MESSAGE, step)
    assert choice.step == step
    assert check(list(choice.form.blocks)) == []
    return choice.form


def cells(found: Form, kind: str = "data_table") -> list[list[dict[str, Any]]]:
    """Return the rows of the one table of a form."""
    [block] = [block for block in found.blocks if block["type"] == kind]
    return block["rows"]


def line(found: Form) -> str:
    """Return the last line below a form."""
    return found.blocks[-1]["elements"][0]["text"]


def test_numbers_are_sorted_as_numbers():
    """A column of numbers has their values and their formatted texts; one that has other cells is text throughout."""
    render = table([ORDERS, "mixed"], [{"orders": 1200, "mixed": 1}, {"orders": 7, "mixed": "n/a"}])
    header, *rows = cells(form(render))
    assert [cell["type"] for cell in header] == ["raw_text", "raw_text"]
    assert rows[0] == [{"type": "raw_number", "value": 1200, "text": "1,200"}, {"type": "raw_text", "text": "1"}]
    assert [row[1]["type"] for row in rows] == ["raw_text", "raw_text"]


def test_numbers_written_as_text_are_numbers_where_the_format_says_so():
    """Amounts that a database returns as text are sorted by their value under a format of numbers, not without one."""
    price = {"key": "price", "label": "Price", "format": "currency:EUR"}
    [row] = cells(form(table([price, "code"], [{"price": "12.50", "code": "007"}])))[1:]
    assert row == [{"type": "raw_number", "value": 12.5, "text": "€12.50"}, {"type": "raw_text", "text": "007"}]


@for_each("value", [None, "", "  ", "\n"])
def test_an_empty_cell_is_a_dash(value: Any):
    """Slack refuses cells without a character, so an empty one shows a dash."""
    assert cells(form(table(["a"], [{"a": value}])))[1] == [{"type": "raw_text", "text": "\u2013"}]


@for_each("value", [2**53, -(2**60), True])
def test_what_no_number_holds_is_text(value: Any):
    """Integers that lose digits as numbers of JSON are shown exactly, and no truth is a number."""
    [cell] = cells(form(table(["a"], [{"a": value}])))[1]
    assert cell["type"] == "raw_text"
    assert cell["text"] in (str(value), "yes")


def test_a_small_table_is_one_block():
    """A table that is shown whole has no file and nothing below it; all of a short one is on one page."""
    found = form(table(["a", "b"], [{"a": n, "b": n} for n in range(12)]))
    assert [block["type"] for block in found.blocks] == ["data_table"]
    assert found.blocks[0]["caption"] == "Orders"
    assert found.blocks[0]["page_size"] == 12
    assert found.upload is None
    assert found.without_file() == found.blocks


def test_a_long_table_shows_its_first_rows():
    """Of 500 rows 200 are shown, in pages, and the whole is attached; without a file the line does not name it."""
    found = form(table(["a"], [{"a": n} for n in range(500)]))
    assert len(cells(found)) == 201
    assert found.blocks[0]["page_size"] == 10
    assert line(found) == "First 200 of 500 rows; the whole table is attached."
    assert isinstance(found.upload, CsvUpload)
    assert (found.upload.name, found.upload.rows) == ("orders.csv", 500)
    bare = found.without_file()
    assert bare is not None
    assert bare[-1]["elements"][0]["text"] == "First 200 of 500 rows."


def test_rows_are_counted_by_their_characters():
    """Rows that are long fill the block before there are 200 of them."""
    found = form(table(["a"], [{"a": "x" * 199}] * 500))
    assert line(found) == "First 100 of 500 rows; the whole table is attached."


def test_a_wide_table_shows_its_first_columns():
    """Of 30 columns the first ones that can be read across are shown: fewer of wide ones."""
    narrow = table([f"c{n}" for n in range(30)], [{f"c{n}": n for n in range(30)}] * 2)
    wide = table([f"c{n}" for n in range(30)], [{f"c{n}": "some longer words" for n in range(30)}] * 2)
    assert line(form(narrow)) == "First 20 of 30 columns; the whole table is attached."
    assert line(form(wide)) == "First 5 of 30 columns; the whole table is attached."
    assert [cell["text"] for cell in cells(form(wide))[0]] == [f"c{n}" for n in range(5)]


def test_twenty_columns_are_shown():
    """What Slack takes is not left out, however wide it is: people can scroll."""
    keys = [f"c{n}" for n in range(20)]
    assert len(cells(form(table(keys, [dict.fromkeys(keys, "some longer words")])))[0]) == 20


def test_a_long_cell_is_cut():
    """A cell of 10,000 characters is cut, and is whole in the file."""
    found = form(table(["a"], [{"a": "long " * 2_000}]))
    [[cell]] = cells(found)[1:]
    assert len(cell["text"]) <= 240
    assert cell["text"].endswith("long…")
    assert line(found) == "Long cells are cut; the whole table is attached."


def test_no_rows_and_one_row():
    """A table without rows says so and names its columns; one with a row is a table."""
    empty = form(table(["a", "b"], []))
    assert line(empty) == "Orders: no rows. Columns: a, b"
    assert empty.text == "Orders: table of 0 rows and 2 columns\na | b"
    assert form(table(["a"], [{"a": 1}])).text == "Orders: table of 1 row and 1 column\na\n1"


def test_headings_may_be_the_same():
    """Two columns with one heading are two columns."""
    same = [{"key": "a", "label": "Total"}, {"key": "b", "label": "Total"}]
    assert [cell["text"] for cell in cells(form(table(same, [{"a": 1, "b": 2}])))[0]] == ["Total", "Total"]


def test_at_last_there_is_text():
    """The last form has no blocks: the text of the render is shown, and the whole table is attached."""
    found = form(table(["a", "b"], [{"a": n, "b": n} for n in range(500)]), 1)
    assert found.blocks == ()
    assert isinstance(found.upload, CsvUpload)
    assert found.upload.rows == 500
    assert found.without_file() == ()


@for_each("payload", [{}, {"columns": []}, {"columns": [], "rows": []}, {"columns": [1], "rows": [2]}])
def test_other_payloads_have_no_forms(payload: dict[str, Any]):
    """A payload of the kind `table` that is none is shown as its text, like other kinds."""
    assert ladder_of(ShownRender("ren_1", "table", payload, "text")) is None
    assert ladder_of(ShownRender("ren_1", "chart", payload, "text")) is None
    assert ladder_of(ShownRender("ren_1", "tally", {"spec": {}}, "text")) is None
