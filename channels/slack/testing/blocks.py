"""Slack's check of blocks, as strict as Slack: fields, types, lengths, counts, sums over a message, surfaces."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from channels.slack.testing.block_data import DATA_TABLE, DATA_VISUALIZATION, TABLE, cell_texts
from channels.slack.testing.block_parts import (
    ACTIONS,
    CONTEXT_ACTIONS,
    IMAGE,
    INPUTS,
    RICH_TEXT,
    SECTION_ACCESSORIES,
    words,
)
from channels.slack.testing.block_shapes import (
    Json,
    Shape,
    ShapeProblem,
    both,
    flag,
    items,
    number,
    record,
    text,
    typed,
)
from channels.slack.web_api import limits

Surface = Literal["message", "modal", "home"]

_MRKDWN = ("plain_text", "mrkdwn")
_SURFACES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("markdown", "context_actions", "data_visualization", "task_card", "plan"), frozenset({"message"})),
    **dict.fromkeys(("table", "data_table"), frozenset({"message", "home"})),
}
_SUMS = (
    ("markdown", limits.MARKDOWN.value),
    ("table", limits.TABLE_TEXT.value),
    ("data_table", limits.DATA_TABLE_TEXT.value),
)


def check(blocks: Any, *, surface: Surface = "message") -> list[ShapeProblem]:
    """Return what Slack would refuse in *blocks*; pointers begin at the list: `/1/elements/0/text`."""
    limit = limits.BLOCKS_PER_MESSAGE if surface == "message" else limits.BLOCKS_PER_VIEW
    problems = list(items(typed(_BLOCKS), limit.value, least=0)(blocks, ""))
    if problems and not isinstance(blocks, list):
        return problems
    whole = [cast(Json, block) if isinstance(block, dict) else {} for block in cast("list[Any]", blocks)]
    return [*problems, *_misplaced(whole, surface), *_repeated(whole), *_too_much(whole, surface)]


def check_view(view: Any) -> list[ShapeProblem]:
    """Return what Slack would refuse in a modal or a Home tab; pointers begin at the view."""
    problems = list(typed(_VIEWS)(view, ""))
    if isinstance(view, dict) and "blocks" in view:
        content = cast(Json, view)
        surface: Surface = "home" if content.get("type") == "home" else "modal"
        inner = check(content["blocks"], surface=surface)
        problems += [problem._replace(pointer=f"/blocks{problem.pointer}") for problem in inner]
        if surface == "modal" and "submit" not in content and any(_is_input(each) for each in content["blocks"]):
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
    if surface == "message" and len(tables) > (limit := limits.TABLES_PER_MESSAGE.value):
        yield ShapeProblem(
            f"/{tables[limit]}", "only_one_table_allowed", "only one table block is allowed in a message"
        )
    charts = [n for n, block in enumerate(blocks) if block.get("type") == "data_visualization"]
    if len(charts) > (limit := limits.CHARTS_PER_MESSAGE.value):
        yield ShapeProblem(f"/{charts[limit]}", "too_many", f"no more than {limit} data_visualization blocks allowed")


def _block(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    return record(required, {"block_id": text(limits.BLOCK_ID.value), **(optional or {})})


def _has_words(value: Json, at: str) -> Iterator[ShapeProblem]:
    if "text" not in value and "fields" not in value:
        yield ShapeProblem(at, "missing_field", "missing required field: text or fields")


_TASK: dict[str, Shape] = {
    "task_id": text(),
    "title": text(limits.TASK_TEXT.value),
    "status": text(among=("pending", "in_progress", "complete", "error")),
}
_SOURCE = typed({"url": record({"url": text(limits.BUTTON_URL.value), "text": text()})})
_TASK_CARD = _block(
    _TASK,
    {"details": typed({"rich_text": RICH_TEXT}), "output": typed({"rich_text": RICH_TEXT}), "sources": items(_SOURCE)},
)

_BLOCKS: dict[str, Shape] = {
    "markdown": _block({"text": text(limits.MARKDOWN.value)}),
    "section": both(
        _block(
            {},
            {
                "text": words(limits.SECTION_TEXT.value, *_MRKDWN),
                "fields": items(words(limits.SECTION_FIELD.value, *_MRKDWN), limits.SECTION_FIELDS.value),
                "accessory": typed(SECTION_ACCESSORIES),
                "expand": flag,
            },
        ),
        _has_words,
    ),
    "header": _block(
        {"text": words(limits.HEADER_TEXT.value, "plain_text")},
        {"level": number(1, limits.HEADER_LEVEL.value, whole=True)},
    ),
    "context": _block(
        {
            "elements": items(
                typed({**dict.fromkeys(_MRKDWN, words(limits.CONTEXT_TEXT.value, *_MRKDWN)), "image": IMAGE}),
                limits.CONTEXT_ELEMENTS.value,
            )
        }
    ),
    "divider": _block({}),
    "actions": _block({"elements": items(typed(ACTIONS), limits.ACTIONS_ELEMENTS.value)}),
    "context_actions": _block({"elements": items(typed(CONTEXT_ACTIONS), limits.CONTEXT_ACTIONS_ELEMENTS.value)}),
    "image": IMAGE,
    "input": _block(
        {"label": words(limits.INPUT_LABEL.value, "plain_text"), "element": typed(INPUTS)},
        {"hint": words(limits.INPUT_HINT.value, "plain_text"), "optional": flag, "dispatch_action": flag},
    ),
    "rich_text": RICH_TEXT,
    "table": TABLE,
    "data_table": DATA_TABLE,
    "data_visualization": DATA_VISUALIZATION,
    "task_card": _TASK_CARD,
    "plan": _block({"title": text(limits.TASK_TEXT.value)}, {"tasks": items(typed({"task_card": _TASK_CARD}))}),
}

_ANY: Shape = lambda _value, _at: iter(())  # noqa: E731 -- blocks are checked for their surface
_TITLE = words(limits.VIEW_TITLE.value, "plain_text")
_VIEW: dict[str, Shape] = {
    "callback_id": text(limits.VIEW_CALLBACK_ID.value, least=0),
    "private_metadata": text(limits.VIEW_METADATA.value, least=0),
    "external_id": text(limits.VIEW_CALLBACK_ID.value, least=0),
}
_MODAL: dict[str, Shape] = {"submit": _TITLE, "close": _TITLE, "clear_on_close": flag, "notify_on_close": flag}
_VIEWS: dict[str, Shape] = {
    "modal": record({"title": _TITLE, "blocks": _ANY}, {**_VIEW, **_MODAL, "submit_disabled": flag}),
    "home": record({"blocks": _ANY}, _VIEW),
}
