"""The shapes of what blocks are made of: texts, rich text, images, buttons, menus and inputs."""

from channels.slack.testing.block_shapes import Shape, both, flag, items, number, one_of, record, text, typed
from channels.slack.web_api import limits

_ID = {"block_id": text(limits.BLOCK_ID.value)}
_ACTION = {"action_id": text(limits.ACTION_ID.value)}


def words(limit: int, *kinds: str) -> Shape:
    """Ask for a text object of *limit* characters and one of *kinds*."""
    flags = {"plain_text": {"emoji": flag}, "mrkdwn": {"verbatim": flag}}
    return typed({kind: record({"text": text(limit)}, flags[kind]) for kind in kinds})


def _plain(limit: int) -> Shape:
    return words(limit, "plain_text")


IMAGE = both(
    record(
        {"alt_text": text(limits.IMAGE_ALT.value)},
        {
            **_ID,
            "image_url": text(limits.IMAGE_URL.value),
            "slack_file": both(record({}, {"id": text(), "url": text()}), one_of("id", "url")),
            "title": _plain(limits.IMAGE_TITLE.value),
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
        "title": _plain(limits.CONFIRM_TITLE.value),
        "text": words(limits.CONFIRM_TEXT.value, "plain_text", "mrkdwn"),
        "confirm": _plain(limits.CONFIRM_BUTTON.value),
        "deny": _plain(limits.CONFIRM_BUTTON.value),
    },
    {"style": text(among=("primary", "danger"))},
)
_LABEL = {"accessibility_label": text(limits.ACCESSIBILITY_LABEL.value)}
_VISIBLE = {"visible_to_user_ids": items(text(), limits.VISIBLE_TO.value)}
_VALUE = {"value": text(limits.BUTTON_VALUE.value)}
_BUTTON = record(
    {"text": _plain(limits.BUTTON_TEXT.value)},
    {
        **_ACTION,
        **_VALUE,
        **_LABEL,
        **_VISIBLE,
        "url": text(limits.BUTTON_URL.value),
        "style": text(among=("primary", "danger")),
        "confirm": _CONFIRM,
        "agent_prompt": text(limits.AGENT_PROMPT.value),
        "agent_prompt_display": text(),
    },
)
_OPTION = record(
    {"text": words(limits.OPTION_TEXT.value, "plain_text", "mrkdwn"), "value": text(limits.OPTION_VALUE.value)},
    {"description": words(limits.OPTION_TEXT.value, "plain_text", "mrkdwn"), "url": text(limits.BUTTON_URL.value)},
)
_ELEMENT = {**_ACTION, "confirm": _CONFIRM, "focus_on_load": flag}
_MENU = {**_ELEMENT, "placeholder": _plain(limits.PLACEHOLDER.value)}
_GROUP = record({"label": _plain(limits.OPTION_TEXT.value), "options": items(_OPTION, limits.OPTIONS.value)})
_MENUS: dict[str, Shape] = {
    "static_select": both(
        record(
            {},
            {
                **_MENU,
                "options": items(_OPTION, limits.OPTIONS.value),
                "option_groups": items(_GROUP, limits.OPTIONS.value),
                "initial_option": _OPTION,
            },
        ),
        one_of("options", "option_groups"),
    ),
    "users_select": record({}, {**_MENU, "initial_user": text()}),
    "conversations_select": record(
        {}, {**_MENU, "initial_conversation": text(), "default_to_current_conversation": flag}
    ),
    "checkboxes": record(
        {"options": items(_OPTION, limits.CHOICES.value)}, {**_ELEMENT, "initial_options": items(_OPTION)}
    ),
    "radio_buttons": record({"options": items(_OPTION, limits.CHOICES.value)}, {**_ELEMENT, "initial_option": _OPTION}),
}
ACTIONS: dict[str, Shape] = {
    **_MENUS,
    "button": _BUTTON,
    "overflow": record({"options": items(_OPTION, limits.OVERFLOW_OPTIONS.value)}, {**_ACTION, "confirm": _CONFIRM}),
}
SECTION_ACCESSORIES: dict[str, Shape] = {**ACTIONS, "image": IMAGE}
_WRITTEN = {**_ACTION, "placeholder": _plain(limits.PLACEHOLDER.value), "focus_on_load": flag}
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
                "options": items(_OPTION, limits.OPTIONS.value),
                "option_groups": items(_GROUP, limits.OPTIONS.value),
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
            "placeholder": _plain(limits.PLACEHOLDER.value),
            "initial_value": text(limits.INPUT_TEXT.value, least=0),
            "multiline": flag,
            "min_length": number(0, limits.INPUT_TEXT.value, whole=True),
            "max_length": number(1, limits.INPUT_TEXT.value, whole=True),
            "focus_on_load": flag,
        },
    ),
}

_VOTE = record(
    {"text": _plain(limits.BUTTON_TEXT.value), **_VALUE},
    _LABEL,
)
CONTEXT_ACTIONS: dict[str, Shape] = {
    "feedback_buttons": record({"positive_button": _VOTE, "negative_button": _VOTE}, _ACTION),
    "icon_button": record(
        {"icon": text(among=("trash",)), "text": _plain(limits.BUTTON_TEXT.value)},
        {**_ACTION, **_VALUE, **_LABEL, **_VISIBLE, "confirm": _CONFIRM},
    ),
}
