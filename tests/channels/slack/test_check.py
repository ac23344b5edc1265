"""The stand-in's check of blocks refuses what Slack refuses, and says where."""

from copy import deepcopy
from typing import Any

from channels.slack import limits
from channels.slack.testing.blocks import check, check_view
from tests.cases import for_each
from tests.channels.slack.samples import SAMPLES, raw, section, words

VIEW = {"type": "modal", "title": words("Title"), "submit": words("Go"), "blocks": [SAMPLES["input"]]}


def changed(kind: str, path: str, value: Any) -> dict:
    """Return a sample with the value at *path* replaced, or removed if it is `...`."""
    block = deepcopy(SAMPLES[kind])
    *parents, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    inner: Any = block
    for step in parents:
        inner = inner[step]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return block


def x(limit: int) -> str:
    """Return one character more than *limit* allows."""
    return "x" * (limit + 1)


@for_each("kind", sorted(SAMPLES))
def test_a_sound_block_passes(kind: str):
    """One block of each kind, as the documentation shows it, is taken."""
    assert check([SAMPLES[kind]]) == []


LONG = [
    ("markdown", "text", limits.MARKDOWN),
    ("section", "text/text", limits.SECTION_TEXT),
    ("section", "fields/1/text", limits.SECTION_FIELD),
    ("section", "block_id", limits.BLOCK_ID),
    ("section", "accessory/options/0/text/text", limits.OPTION_TEXT),
    ("section", "accessory/options/0/value", limits.OPTION_VALUE),
    ("section", "accessory/placeholder/text", limits.PLACEHOLDER),
    ("header", "text/text", limits.HEADER_TEXT),
    ("context", "elements/0/text", limits.CONTEXT_TEXT),
    ("actions", "elements/0/text/text", limits.BUTTON_TEXT),
    ("actions", "elements/0/value", limits.BUTTON_VALUE),
    ("actions", "elements/0/url", limits.BUTTON_URL),
    ("actions", "elements/0/action_id", limits.ACTION_ID),
    ("actions", "elements/1/confirm/title/text", limits.CONFIRM_TITLE),
    ("actions", "elements/1/confirm/text/text", limits.CONFIRM_TEXT),
    ("actions", "elements/1/confirm/deny/text", limits.CONFIRM_BUTTON),
    ("context_actions", "elements/0/positive_button/text/text", limits.BUTTON_TEXT),
    ("context_actions", "elements/0/negative_button/accessibility_label", limits.ACCESSIBILITY_LABEL),
    ("image", "alt_text", limits.IMAGE_ALT),
    ("image", "title/text", limits.IMAGE_TITLE),
    ("input", "label/text", limits.INPUT_LABEL),
    ("data_visualization", "title", limits.CHART_TITLE),
    ("data_visualization", "chart/axis_config/x_label", limits.CHART_AXIS),
    ("task_card", "title", limits.TASK_TEXT),
]


@for_each("kind, path, limit", LONG)
def test_a_text_has_its_longest_length(kind: str, path: str, limit: int):
    """One character more than the limit is refused at the place of that text, the limit itself is not."""
    [problem] = [each for each in check([SAMPLES["divider"], changed(kind, path, x(limit))]) if each.pointer != "/1"]
    assert problem[:2] == (f"/1/{path}", "too_long")
    assert problem.message == f"must be less than {limit + 1} characters"
    assert check([changed(kind, path, x(limit)[1:])]) == []


MANY = [
    ("section", "fields", limits.SECTION_FIELDS),
    ("context", "elements", limits.CONTEXT_ELEMENTS),
    ("actions", "elements", limits.ACTIONS_ELEMENTS),
    ("context_actions", "elements", limits.CONTEXT_ACTIONS_ELEMENTS),
    ("section", "accessory/options", limits.OPTIONS),
    ("table", "rows", limits.TABLE_ROWS),
    ("table", "rows/0", limits.TABLE_CELLS),
    ("data_table", "rows/0", limits.DATA_TABLE_COLUMNS),
    ("data_visualization", "chart/series", limits.CHART_SERIES),
    ("data_visualization", "chart/series/0/data", limits.CHART_POINTS),
]


@for_each("kind, path, limit", MANY)
def test_a_list_has_its_longest_length(kind: str, path: str, limit: int):
    """One item more than the limit, or none at all, is refused at the list."""
    inner: Any = SAMPLES[kind]
    for step in path.split("/"):
        inner = inner[int(step) if step.isdigit() else step]
    many = [inner[0]] * (limit + 1)
    assert (f"/0/{path}", "too_many") in [problem[:2] for problem in check([changed(kind, path, many)])]
    assert (f"/0/{path}", "too_few") in [problem[:2] for problem in check([changed(kind, path, [])])]


WRONG = [
    ("markdown", "text", ..., "", "missing_field", "missing required field: text"),
    ("markdown", "text", "", "/text", "too_short", "must be more than 0 characters"),
    ("markdown", "type", "mark", "/type", "unknown_type", "unsupported type: mark"),
    ("section", "text", "Hi", "/text", "wrong_type", "must provide an object"),
    ("section", "color", "red", "", "unknown_field", "invalid additional property: color"),
    ("section", "expand", 1, "/expand", "wrong_type", "must provide a boolean"),
    ("header", "text/type", "mrkdwn", "/text/type", "unknown_type", "unsupported type: mrkdwn"),
    ("header", "level", 5, "/level", "too_high", "must be at most 4"),
    ("context", "elements/0/type", "button", "/elements/0/type", "unknown_type", "unsupported type: button"),
    ("actions", "elements/0/text", ..., "/elements/0", "missing_field", "missing required field: text"),
    ("actions", "elements/1/action_id", "approve", "", "not_unique", "action_id approve already exists"),
    ("image", "image_url", "https://a.example", "", "bad_value", "must have exactly one of: image_url, slack_file"),
    ("image", "alt_text", ..., "", "missing_field", "missing required field: alt_text"),
    ("rich_text", "elements/0/elements/0/text", "", "/elements/0/elements/0/text", "too_short", None),
    ("rich_text", "elements/1/style", "stars", "/elements/1/style", "bad_value", None),
    ("rich_text", "elements/1/elements/0/type", "text", "/elements/1/elements/0/type", "unknown_type", None),
    ("table", "column_settings/0/align", "middle", "/column_settings/0/align", "bad_value", None),
    ("data_table", "rows/1", [raw("x")], "/rows/1", "bad_value", "all rows must have 2 cells"),
    ("data_table", "rows/1/0/text", "", "/rows/1/0/text", "too_short", None),
    ("data_table", "rows/0/0", {"type": "rich_text", "elements": [section("x")]}, "/rows/0/0", "bad_value", None),
    ("data_table", "row_header_column_index", 2, "/row_header_column_index", "too_high", None),
    ("data_visualization", "chart/series/0/data/0/label", "Mar", "/chart/series/0/data", "bad_value", None),
    ("data_visualization", "chart/axis_config", ..., "/chart", "missing_field", None),
    ("data_visualization", "chart/series/0/data/0/value", float("nan"), "/chart/series/0/data/0/value",
     "bad_value", None),
    ("data_visualization", "chart", {"type": "pie", "segments": [{"label": "a", "value": 0}]},
     "/chart/segments/0/value", "too_low", "must be greater than 0"),
    ("task_card", "title", words("x"), "/title", "wrong_type", "must provide a string"),
    ("task_card", "status", "completed", "/status", "bad_value", None),
    ("task_card", "status", "pending", "/status", "bad_value", "a task_card outside of a plan may not be pending"),
    ("task_card", "output", "done", "/output", "wrong_type", "must provide an object"),
    ("task_card", "task_id", ..., "", "missing_field", None),
]  # fmt: skip


@for_each("kind, path, value, pointer, code, message", WRONG)
def test_what_is_wrong_is_said_with_its_place(kind: str, path: str, value: Any, pointer: str, code: str, message: str):
    """A missing, unknown, mistyped or contradictory value is refused once, with a pointer to it."""
    [problem] = check([changed(kind, path, value)])
    assert problem[:2] == (f"/0{pointer}", code)
    assert message in (None, problem.message)


@for_each("kind", ["markdown", "table", "data_table"])
def test_sums_go_over_all_blocks_of_a_message(kind: str):
    """Texts that are short enough alone may be too long together; the block that is too much is named."""
    text = "x" * (10_001 if kind == "data_table" else 6_001)
    block = {
        "markdown": {"type": "markdown", "text": text},
        "table": {"type": "table", "rows": [[raw(text)]]},
        "data_table": {"type": "data_table", "caption": "c", "rows": [[raw("h")], [raw(text)]]},
    }[kind]
    assert check([block]) == []
    also = [("/2", "only_one_table_allowed")] if kind == "table" else []
    assert [problem[:2] for problem in check([block, SAMPLES["divider"], block])] == [("/2", "too_long"), *also]


def test_counts_go_over_all_blocks_of_a_message():
    """50 blocks, two charts, and no block_id twice."""
    divider = SAMPLES["divider"]
    assert check([divider] * limits.BLOCKS_PER_MESSAGE) == []
    assert [problem[:2] for problem in check([divider] * 51)] == [("", "too_many")]
    assert check([divider] * 51, surface="modal") == []
    assert [problem[:2] for problem in check([SAMPLES["data_visualization"]] * 3)] == [("/2", "too_many")]
    named = {"type": "divider", "block_id": "a"}
    assert [problem[:2] for problem in check([named, named])] == [("/1/block_id", "not_unique")]


def test_a_block_is_only_where_it_may_be():
    """Markdown, charts, tables, tasks and feedback are for messages."""
    for kind in ("markdown", "context_actions", "data_visualization", "task_card", "table"):
        assert [problem[:2] for problem in check([SAMPLES[kind]], surface="modal")] == [("/0/type", "wrong_surface")]


@for_each("blocks", [None, "x", {"type": "divider"}, [None], [[]], [{}], [{"type": 7}], [{"type": []}]])
def test_any_json_can_be_checked(blocks: Any):
    """Any JSON value can be checked."""
    assert check(blocks)


def test_a_view_has_limits_of_its_own():
    """Titles, metadata and the button of a form."""
    assert check_view(VIEW) == []
    for broken, pointer, code in (
        ({"title": words(x(limits.VIEW_TITLE))}, "/title/text", "too_long"),
        ({"private_metadata": x(limits.VIEW_METADATA)}, "/private_metadata", "too_long"),
        ({"callback_id": x(limits.VIEW_CALLBACK_ID)}, "/callback_id", "too_long"),
        ({"blocks": [SAMPLES["task_card"]]}, "/blocks/0/type", "wrong_surface"),
        ({"blocks": [SAMPLES["divider"]] * 101}, "/blocks", "too_many"),
        ({"type": "page"}, "/type", "unknown_type"),
    ):
        assert [problem[:2] for problem in check_view(VIEW | broken)] == [(pointer, code)]
    assert [problem[:2] for problem in check_view({k: v for k, v in VIEW.items() if k != "submit"})] == [
        ("", "missing_field")
    ]
