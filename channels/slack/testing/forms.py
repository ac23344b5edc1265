"""What a person writes into a modal, as Slack sends it: each field with its value, or with what was there first."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from channels.slack.testing.world import Json
from channels.slack.web_api import limits


class NotPossible(Exception):
    """What a person is to do is not possible in Slack as it is."""


def filled(view: Json, values: Mapping[str, Any]) -> Json:
    """Return the `state.values` of *view*; raises `NotPossible` where Slack does not let a person send it off."""
    fields = dict(_fields(view))
    if unknown := sorted(name for name in values if name not in fields):
        raise NotPossible(f"The modal has no field {', '.join(unknown)}.")
    return {name: _state(block, values.get(name)) for name, block in fields.items()}


def _fields(view: Json) -> Iterator[tuple[str, Json]]:
    for n, block in enumerate(view.get("blocks", [])):
        if block.get("type") == "input":
            yield str(block.get("block_id") or f"b{n}"), block


def _state(block: Json, value: Any) -> Json:
    if isinstance(value, Mapping):
        return dict(cast("Json", value))
    element: Json = block["element"]
    match element["type"]:
        case "static_select" | "radio_buttons":
            state = _chosen(element, value)
        case "multi_static_select" | "checkboxes":
            state = _several(element, value)
        case "datepicker":
            state = {"selected_date": value or element.get("initial_date")}
        case "datetimepicker":
            state = {"selected_date_time": value or element.get("initial_date_time")}
        case _:
            state = _written(element, value)
    if not block.get("optional") and not any(state.values()):
        raise NotPossible(f"The field {block['label']['text']} has to be filled in.")
    return {element.get("action_id", ""): {"type": element["type"], **state}}


def _chosen(element: Json, value: str | None) -> Json:
    if value is None:
        return {"selected_option": element.get("initial_option")}
    groups = [element, *element.get("option_groups", [])]
    options = [each for group in groups for each in group.get("options", []) if each["value"] == value]
    if value and not options:
        raise NotPossible(f"There is nothing to choose with the value {value}.")
    return {"selected_option": options[0] if options else None}


def _several(element: Json, values: str | None) -> Json:
    """Return the options of *values*, which have commas between them."""
    if values is None:
        return {"selected_options": element.get("initial_options", [])}
    wanted = [each for each in values.split(",") if each]
    chosen = [each for each in element["options"] if each["value"] in wanted]
    if len(chosen) != len(wanted):
        raise NotPossible(f"There is nothing to choose with one of the values {values}.")
    if len(chosen) > element.get("max_selected_items", len(chosen)):
        raise NotPossible(f"At most {element['max_selected_items']} may be chosen.")
    return {"selected_options": chosen}


def _written(element: Json, typed: str | None) -> Json:
    value = element.get("initial_value") if typed is None else typed
    limit = element.get("max_length") or limits.INPUT_TEXT.value
    if value is not None and len(value) > limit:
        raise NotPossible(f"A field holds at most {limit} characters.")
    return {"value": value or None}
