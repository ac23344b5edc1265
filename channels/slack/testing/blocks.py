"""The blocks and views that Slack takes, as shapes; a shape says what is wrong with a value, and where."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from channels.slack import limits

Json = dict[str, Any]


class ShapeProblem(NamedTuple):
    """What Slack would refuse: *pointer* is a JSON pointer into what was checked."""

    pointer: str
    code: str
    message: str


Shape = Callable[[Any, str], Iterator[ShapeProblem]]


def text(limit: int | None = None, *, least: int = 1, among: tuple[str, ...] = ()) -> Shape:
    """Require a string of *least* to *limit* characters, or one *among* a few."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if not isinstance(value, str):
            yield ShapeProblem(at, "wrong_type", "must provide a string")
        elif among and value not in among:
            yield ShapeProblem(at, "bad_value", f"must be a valid enum value: {', '.join(among)}")
        elif len(value) < least:
            yield ShapeProblem(at, "too_short", f"must be more than {least - 1} characters")
        elif limit is not None and len(value) > limit:
            yield ShapeProblem(at, "too_long", f"must be less than {limit + 1} characters")

    return check


def number(
    least: float | None = None, limit: float | None = None, *, whole: bool = False, above: bool = False
) -> Shape:
    """Require a number from *least* (with *above*: more than it) to *limit*."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            yield ShapeProblem(at, "wrong_type", f"must provide {'an integer' if whole else 'a number'}")
        elif value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 -- only NaN differs from itself
            yield ShapeProblem(at, "bad_value", "must be a finite number")
        elif least is not None and (value <= least if above else value < least):
            yield ShapeProblem(at, "too_low", f"must be {'greater than' if above else 'at least'} {least}")
        elif limit is not None and value > limit:
            yield ShapeProblem(at, "too_high", f"must be at most {limit}")

    return check


def flag(value: Any, at: str) -> Iterator[ShapeProblem]:
    """Require a boolean."""
    if not isinstance(value, bool):
        yield ShapeProblem(at, "wrong_type", "must provide a boolean")


def items(of: Shape, limit: int | None = None, *, least: int = 1) -> Shape:
    """Require an array of *least* to *limit* items."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if not isinstance(value, list):
            yield ShapeProblem(at, "wrong_type", "must provide an array")
            return
        items = cast("list[Any]", value)
        if len(items) < least:
            yield ShapeProblem(at, "too_few", f"no fewer than {least} items allowed")
        if limit is not None and len(items) > limit:
            yield ShapeProblem(at, "too_many", f"no more than {limit} items allowed")
        for n, item in enumerate(items):
            yield from of(item, f"{at}/{n}")

    return check


def record(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Require an object with all *required* fields, perhaps *optional* ones, and no others."""
    fields = {**required, **(optional or {})}

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if not isinstance(value, dict):
            yield ShapeProblem(at, "wrong_type", "must provide an object")
            return
        record = cast(Json, value)
        for name in required:
            if name not in record:
                yield ShapeProblem(at, "missing_field", f"missing required field: {name}")
        for name, inner in record.items():
            if name in fields:
                yield from fields[name](inner, f"{at}/{name}")
            elif name != "type":
                yield ShapeProblem(at, "unknown_field", f"invalid additional property: {name}")

    return check


def typed(shapes: Mapping[str, Shape]) -> Shape:
    """Require an object whose `type` says which of *shapes* it has."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if not isinstance(value, dict):
            yield ShapeProblem(at, "wrong_type", "must provide an object")
            return
        fields = cast(Json, value)
        kind = fields.get("type")
        if kind is None:
            yield ShapeProblem(at, "missing_field", "missing required field: type")
        elif not isinstance(kind, str) or kind not in shapes:
            yield ShapeProblem(f"{at}/type", "unknown_type", f"unsupported type: {kind}")
        else:
            yield from shapes[kind](fields, at)

    return check


def both(*shapes: Shape) -> Shape:
    """Require a value that has all *shapes*; those after the first are checked only if it accepts."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        problems = list(shapes[0](value, at))
        yield from problems
        if not problems:
            for shape in shapes[1:]:
                yield from shape(value, at)

    return check


def nullable(shape: Shape) -> Shape:
    """Require a value of *shape*, or null."""
    return lambda value, at: iter(()) if value is None else shape(value, at)


def one_of(*names: str) -> Shape:
    """Require an object with exactly one of the fields *names*."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if sum(name in value for name in names) != 1:
            yield ShapeProblem(at, "bad_value", f"must have exactly one of: {', '.join(names)}")

    return check


_ID = {"block_id": text(limits.BLOCK_ID)}
_ACTION = {"action_id": text(limits.ACTION_ID)}


def words(limit: int, *kinds: str) -> Shape:
    """Ask for a text object of *limit* characters and one of *kinds*."""
    flags = {"plain_text": {"emoji": flag}, "mrkdwn": {"verbatim": flag}}
    return typed({kind: record({"text": text(limit)}, flags[kind]) for kind in kinds})


def _plain(limit: int) -> Shape:
    return words(limit, "plain_text")


IMAGE = both(
    record(
        {"alt_text": text(limits.IMAGE_ALT)},
        {
            **_ID,
            "image_url": text(limits.IMAGE_URL),
            "slack_file": both(record({}, {"id": text(), "url": text()}), one_of("id", "url")),
            "title": _plain(limits.IMAGE_TITLE),
        },
    ),
    one_of("image_url", "slack_file"),
)

# ---- rich text ------------------------------------------------------------------------------------

_STYLE = {"style": record({}, dict.fromkeys(("bold", "italic", "strike", "underline", "code", "highlight"), flag))}
_TEXT = record({"text": text()}, _STYLE)
_LINK = record({"url": text()}, {**_STYLE, "text": text(), "unsafe": flag})
_INLINE = typed(
    {
        "text": _TEXT,
        "link": _LINK,
        "emoji": record({"name": text()}, {**_STYLE, "unicode": text(), "skin_tone": number(1, 6, whole=True)}),
        "user": record({"user_id": text()}, _STYLE),
        "usergroup": record({"usergroup_id": text()}, _STYLE),
        "channel": record({"channel_id": text()}, _STYLE),
        "broadcast": record({"range": text(among=("here", "channel", "everyone"))}, _STYLE),
        "color": record({"value": text()}, _STYLE),
        "date": record({"timestamp": number(0, whole=True), "format": text()}, {"url": text(), "fallback": text()}),
    }
)
_BORDER = {"border": number(0, 1, whole=True)}
_SECTION = record({"elements": items(_INLINE)})
_LIST = record(
    {"style": text(among=("bullet", "ordered")), "elements": items(typed({"rich_text_section": _SECTION}))},
    {**_BORDER, "indent": number(0, 8, whole=True), "offset": number(0, whole=True)},
)
RICH_TEXT = record(
    {
        "elements": items(
            typed(
                {
                    "rich_text_section": _SECTION,
                    "rich_text_list": _LIST,
                    "rich_text_preformatted": record(
                        {"elements": items(typed({"text": _TEXT, "link": _LINK}))}, {**_BORDER, "language": text()}
                    ),
                    "rich_text_quote": record({"elements": items(_INLINE)}, _BORDER),
                }
            )
        )
    },
    _ID,
)

# ---- interactive elements -------------------------------------------------------------------------

_CONFIRM = record(
    {
        "title": _plain(limits.CONFIRM_TITLE),
        "text": words(limits.CONFIRM_TEXT, "plain_text", "mrkdwn"),
        "confirm": _plain(limits.CONFIRM_BUTTON),
        "deny": _plain(limits.CONFIRM_BUTTON),
    },
    {"style": text(among=("primary", "danger"))},
)
_LABEL = {"accessibility_label": text(limits.ACCESSIBILITY_LABEL)}
_VALUE = {"value": text(limits.BUTTON_VALUE)}
_BUTTON = record(
    {"text": _plain(limits.BUTTON_TEXT)},
    {
        **_ACTION,
        **_VALUE,
        **_LABEL,
        "url": text(limits.BUTTON_URL),
        "style": text(among=("primary", "danger")),
        "confirm": _CONFIRM,
    },
)
_OPTION = record(
    {"text": words(limits.OPTION_TEXT, "plain_text", "mrkdwn"), "value": text(limits.OPTION_VALUE)},
    {"description": words(limits.OPTION_TEXT, "plain_text", "mrkdwn"), "url": text(limits.BUTTON_URL)},
)
_ELEMENT = {**_ACTION, "confirm": _CONFIRM, "focus_on_load": flag}
_MENU = {**_ELEMENT, "placeholder": _plain(limits.PLACEHOLDER)}
_GROUP = record({"label": _plain(limits.OPTION_TEXT), "options": items(_OPTION, limits.OPTIONS)})
_MENUS: dict[str, Shape] = {
    "static_select": both(
        record(
            {},
            {
                **_MENU,
                "options": items(_OPTION, limits.OPTIONS),
                "option_groups": items(_GROUP, limits.OPTIONS),
                "initial_option": _OPTION,
            },
        ),
        one_of("options", "option_groups"),
    ),
    "checkboxes": record({"options": items(_OPTION, limits.CHOICES)}, {**_ELEMENT, "initial_options": items(_OPTION)}),
    "radio_buttons": record({"options": items(_OPTION, limits.CHOICES)}, {**_ELEMENT, "initial_option": _OPTION}),
}
ACTIONS: dict[str, Shape] = {
    **_MENUS,
    "button": _BUTTON,
}
SECTION_ACCESSORIES: dict[str, Shape] = {**ACTIONS, "image": IMAGE}
_WRITTEN = {**_ACTION, "placeholder": _plain(limits.PLACEHOLDER), "focus_on_load": flag}
INPUTS: dict[str, Shape] = {
    **_MENUS,
    "email_text_input": record({}, {**_WRITTEN, "initial_value": text()}),
    "url_text_input": record({}, {**_WRITTEN, "initial_value": text()}),
    "number_input": record(
        {"is_decimal_allowed": flag}, {**_WRITTEN, **dict.fromkeys(("initial_value", "min_value", "max_value"), text())}
    ),
    "datepicker": record({}, {**_MENU, "initial_date": text(len("2026-01-31"), least=len("2026-01-31"))}),
    "datetimepicker": record({}, {**_ELEMENT, "initial_date_time": number(10**9, 10**10 - 1, whole=True)}),
    "multi_static_select": both(
        record(
            {},
            {
                **_MENU,
                "options": items(_OPTION, limits.OPTIONS),
                "option_groups": items(_GROUP, limits.OPTIONS),
                "initial_options": items(_OPTION),
                "max_selected_items": number(1, whole=True),
            },
        ),
        one_of("options", "option_groups"),
    ),
    "plain_text_input": record(
        {},
        {
            **_ACTION,
            "placeholder": _plain(limits.PLACEHOLDER),
            "initial_value": text(limits.INPUT_TEXT, least=0),
            "multiline": flag,
            "min_length": number(0, limits.INPUT_TEXT, whole=True),
            "max_length": number(1, limits.INPUT_TEXT, whole=True),
            "focus_on_load": flag,
        },
    ),
}

_VOTE = record(
    {"text": _plain(limits.BUTTON_TEXT), **_VALUE},
    _LABEL,
)
CONTEXT_ACTIONS: dict[str, Shape] = {
    "feedback_buttons": record({"positive_button": _VOTE, "negative_button": _VOTE}, _ACTION),
}


_RAW = {"raw_text": record({"text": text()}), "raw_number": record({"value": number(), "text": text()})}
_ROW = items(typed({**_RAW, "rich_text": RICH_TEXT}), limits.TABLE_CELLS)


def cell_texts(value: Any) -> Iterator[str]:
    """Give every text in the rows of a table."""
    match value:
        case {"rows": list()}:
            for row in cast("list[Any]", value["rows"]):
                yield from cell_texts(row)
        case {"text": str() as text}:
            yield text
        case {"elements": inner}:
            yield from cell_texts(inner)
        case list():
            for each in cast("list[Any]", value):
                yield from cell_texts(each)
        case _:
            return


def _short_enough(limit: int, what: str) -> Any:
    def check(value: Json, at: str) -> Iterator[ShapeProblem]:
        if sum(map(len, cell_texts(value))) > limit:
            yield ShapeProblem(at, "too_long", f"a {what} holds at most {limit} characters")

    return check


def _is_grid(value: Json, at: str) -> Iterator[ShapeProblem]:
    header, *rows = value["rows"]
    for n, row in enumerate(rows, 1):
        if len(row) != len(header):
            yield ShapeProblem(f"{at}/rows/{n}", "bad_value", f"all rows must have {len(header)} cells")
    for n, cell in enumerate(header):
        if cell["type"] == "rich_text":
            yield ShapeProblem(f"{at}/rows/0/{n}", "bad_value", "a header cell may not be rich_text")
    if value.get("row_header_column_index", 0) >= len(header):
        yield ShapeProblem(f"{at}/row_header_column_index", "too_high", f"must be less than {len(header)}")


TABLE = both(
    record(
        {"rows": items(_ROW, limits.TABLE_ROWS)},
        {
            **_ID,
            "column_settings": items(
                nullable(record({}, {"align": text(among=("left", "center", "right")), "is_wrapped": flag})),
                limits.TABLE_COLUMN_SETTINGS,
            ),
        },
    ),
    _short_enough(limits.TABLE_TEXT, "table"),
)

DATA_TABLE = both(
    record(
        {
            "caption": text(),
            "rows": items(
                items(typed({**_RAW, "rich_text": RICH_TEXT}), limits.DATA_TABLE_COLUMNS),
                limits.DATA_TABLE_ROWS + 1,
                least=2,
            ),
        },
        {
            **_ID,
            "page_size": number(1, limits.DATA_TABLE_PAGE, whole=True),
            "row_header_column_index": number(0, whole=True),
        },
    ),
    _is_grid,
    _short_enough(limits.DATA_TABLE_TEXT, "data_table"),
)

# ---- charts ---------------------------------------------------------------------------------------

_NAME = text(limits.CHART_NAME)
_AXIS = text(limits.CHART_AXIS)
_POINT = record({"label": _NAME, "value": number()})


def _fits_its_axis(value: Json, at: str) -> Iterator[ShapeProblem]:
    """Every series has one point per category, and names differ."""
    categories: list[str] = value["axis_config"]["categories"]
    if len(set(categories)) < len(categories):
        yield ShapeProblem(f"{at}/axis_config/categories", "not_unique", "categories must be unique")
    names = [series["name"] for series in value["series"]]
    if len(set(names)) < len(names):
        yield ShapeProblem(f"{at}/series", "not_unique", "names of series must be unique")
    for n, series in enumerate(value["series"]):
        if sorted(point["label"] for point in series["data"]) != sorted(categories):
            yield ShapeProblem(f"{at}/series/{n}/data", "bad_value", "must have exactly one point per category")


_SERIES = both(
    record(
        {
            "series": items(record({"name": _NAME, "data": items(_POINT, limits.CHART_POINTS)}), limits.CHART_SERIES),
            "axis_config": record(
                {"categories": items(_NAME, limits.CHART_POINTS)}, {"x_label": _AXIS, "y_label": _AXIS}
            ),
        }
    ),
    _fits_its_axis,
)
_PIE = record({"segments": items(record({"label": _NAME, "value": number(0, above=True)}), limits.CHART_SEGMENTS)})
DATA_VISUALIZATION = record(
    {
        "title": text(limits.CHART_TITLE),
        "chart": typed({"pie": _PIE, "bar": _SERIES, "line": _SERIES, "area": _SERIES}),
    },
    _ID,
)


Surface = Literal["message", "modal"]

_MRKDWN = ("plain_text", "mrkdwn")
_SURFACES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("markdown", "context_actions", "data_visualization", "task_card"), frozenset({"message"})),
    **dict.fromkeys(("table", "data_table"), frozenset({"message"})),
}
_SUMS = (
    ("markdown", limits.MARKDOWN),
    ("table", limits.TABLE_TEXT),
    ("data_table", limits.DATA_TABLE_TEXT),
)


def check(blocks: Any, *, surface: Surface = "message") -> list[ShapeProblem]:
    """Return what Slack would refuse in *blocks*; pointers begin at the list: `/1/elements/0/text`."""
    limit = limits.BLOCKS_PER_MESSAGE if surface == "message" else limits.BLOCKS_PER_VIEW
    problems = list(items(typed(_BLOCKS), limit, least=0)(blocks, ""))
    if problems and not isinstance(blocks, list):
        return problems
    whole = [cast(Json, block) if isinstance(block, dict) else {} for block in cast("list[Any]", blocks)]
    return [*problems, *_misplaced(whole, surface), *_repeated(whole), *_too_much(whole, surface)]


def check_view(view: Any) -> list[ShapeProblem]:
    """Return what Slack would refuse in a modal; pointers begin at the view."""
    problems = list(typed(_VIEWS)(view, ""))
    if isinstance(view, dict) and "blocks" in view:
        content = cast(Json, view)
        inner = check(content["blocks"], surface="modal")
        problems += [problem._replace(pointer=f"/blocks{problem.pointer}") for problem in inner]
        if "submit" not in content and any(_is_input(each) for each in content["blocks"]):
            problems.append(ShapeProblem("", "missing_field", "missing required field: submit"))
    return problems


def _is_input(block: Any) -> bool:
    return isinstance(block, dict) and cast(Json, block).get("type") == "input"


def _misplaced(blocks: Sequence[Json], surface: Surface) -> Iterator[ShapeProblem]:
    for n, block in enumerate(blocks):
        if surface not in _SURFACES.get(str(block.get("type")), {surface}):
            yield ShapeProblem(f"/{n}/type", "wrong_surface", f"unsupported type: {block['type']} in a {surface}")
        if block.get("type") == "task_card" and block.get("status") == "pending":
            yield ShapeProblem(f"/{n}/status", "bad_value", "a task_card outside of a plan may not be pending")


def _repeated(blocks: Sequence[Json]) -> Iterator[ShapeProblem]:
    seen: set[str] = set()
    for n, block in enumerate(blocks):
        if isinstance(name := block.get("block_id"), str):
            if name in seen:
                yield ShapeProblem(f"/{n}/block_id", "not_unique", f"block_id {name} already exists")
            seen.add(name)
        for name, count in Counter(_action_ids(block)).items():
            if count > 1:
                yield ShapeProblem(f"/{n}", "not_unique", f"action_id {name} already exists")


def _action_ids(block: Json) -> Iterator[str]:
    elements = [block.get("accessory"), block.get("element")]
    if block.get("type") in ("actions", "context_actions") and isinstance(block.get("elements"), list):
        elements += block["elements"]
    for element in elements:
        if isinstance(element, dict) and isinstance(name := cast(Json, element).get("action_id"), str):
            yield name


def _too_much(blocks: Sequence[Json], surface: Surface) -> Iterator[ShapeProblem]:
    """Give what is too much over all blocks, at the block that is one too many."""
    for kind, limit in _SUMS:
        size = 0
        for n, block in enumerate(blocks):
            if block.get("type") == kind:
                size += len(block["text"]) if isinstance(block.get("text"), str) else sum(map(len, cell_texts(block)))
                if size > limit:
                    yield ShapeProblem(
                        f"/{n}", "too_long", f"all {kind} blocks of a {surface} hold at most {limit} characters"
                    )
    tables = [n for n, block in enumerate(blocks) if block.get("type") == "table"]
    if surface == "message" and len(tables) > (limit := limits.TABLES_PER_MESSAGE):
        yield ShapeProblem(
            f"/{tables[limit]}", "only_one_table_allowed", "only one table block is allowed in a message"
        )
    charts = [n for n, block in enumerate(blocks) if block.get("type") == "data_visualization"]
    if len(charts) > (limit := limits.CHARTS_PER_MESSAGE):
        yield ShapeProblem(f"/{charts[limit]}", "too_many", f"no more than {limit} data_visualization blocks allowed")


def _block(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    return record(required, {"block_id": text(limits.BLOCK_ID), **(optional or {})})


def _has_words(value: Json, at: str) -> Iterator[ShapeProblem]:
    if "text" not in value and "fields" not in value:
        yield ShapeProblem(at, "missing_field", "missing required field: text or fields")


_TASK: dict[str, Shape] = {
    "task_id": text(),
    "title": text(limits.TASK_TEXT),
    "status": text(among=("pending", "in_progress", "complete", "error")),
}
_TASK_CARD = _block(
    _TASK,
    {"details": typed({"rich_text": RICH_TEXT}), "output": typed({"rich_text": RICH_TEXT})},
)

_BLOCKS: dict[str, Shape] = {
    "markdown": _block({"text": text(limits.MARKDOWN)}),
    "section": both(
        _block(
            {},
            {
                "text": words(limits.SECTION_TEXT, *_MRKDWN),
                "fields": items(words(limits.SECTION_FIELD, *_MRKDWN), limits.SECTION_FIELDS),
                "accessory": typed(SECTION_ACCESSORIES),
                "expand": flag,
            },
        ),
        _has_words,
    ),
    "header": _block(
        {"text": words(limits.HEADER_TEXT, "plain_text")},
        {"level": number(1, limits.HEADER_LEVEL, whole=True)},
    ),
    "context": _block(
        {
            "elements": items(
                typed({**dict.fromkeys(_MRKDWN, words(limits.CONTEXT_TEXT, *_MRKDWN)), "image": IMAGE}),
                limits.CONTEXT_ELEMENTS,
            )
        }
    ),
    "divider": _block({}),
    "actions": _block({"elements": items(typed(ACTIONS), limits.ACTIONS_ELEMENTS)}),
    "context_actions": _block({"elements": items(typed(CONTEXT_ACTIONS), limits.CONTEXT_ACTIONS_ELEMENTS)}),
    "image": IMAGE,
    "input": _block(
        {"label": words(limits.INPUT_LABEL, "plain_text"), "element": typed(INPUTS)},
        {"hint": words(limits.INPUT_HINT, "plain_text"), "optional": flag, "dispatch_action": flag},
    ),
    "rich_text": RICH_TEXT,
    "table": TABLE,
    "data_table": DATA_TABLE,
    "data_visualization": DATA_VISUALIZATION,
    "task_card": _TASK_CARD,
}

_ANY: Shape = lambda _value, _at: iter(())  # noqa: E731 -- blocks are checked for their surface
_TITLE = words(limits.VIEW_TITLE, "plain_text")
_VIEW: dict[str, Shape] = {
    "callback_id": text(limits.VIEW_CALLBACK_ID, least=0),
    "private_metadata": text(limits.VIEW_METADATA, least=0),
}
_MODAL: dict[str, Shape] = {"submit": _TITLE, "close": _TITLE, "clear_on_close": flag, "notify_on_close": flag}
_VIEWS: dict[str, Shape] = {
    "modal": record({"title": _TITLE, "blocks": _ANY}, {**_VIEW, **_MODAL, "submit_disabled": flag}),
}
