"""One sound block of each kind that Parley sends or will send."""

from typing import Any

Json = dict[str, Any]


def words(text: str) -> Json:
    return {"type": "plain_text", "text": text}


def section(*texts: str) -> Json:
    return {"type": "rich_text_section", "elements": [{"type": "text", "text": text} for text in texts]}


def raw(text: str) -> Json:
    return {"type": "raw_text", "text": text}


RICH: Json = {
    "type": "rich_text",
    "elements": [
        {
            "type": "rich_text_section",
            "elements": [
                {"type": "text", "text": "bold", "style": {"bold": True}},
                {"type": "link", "url": "https://a.example", "text": "a"},
                {"type": "emoji", "name": "wave"},
                {"type": "user", "user_id": "U1"},
                {"type": "channel", "channel_id": "C1"},
                {"type": "usergroup", "usergroup_id": "S1"},
                {"type": "date", "timestamp": 1700000000, "format": "{date}"},
            ],
        },
        {"type": "rich_text_list", "style": "bullet", "indent": 1, "elements": [section("one"), section("two")]},
        {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "x = 1"}]},
        {"type": "rich_text_quote", "elements": [{"type": "text", "text": "quoted"}]},
    ],
}
CONFIRM: Json = {
    "title": words("Deny?"),
    "text": words("The run will stop."),
    "confirm": words("Deny"),
    "deny": words("Back"),
    "style": "danger",
}
TASK: Json = {
    "type": "task_card",
    "task_id": "1",
    "title": "Read schema",
    "status": "complete",
    "output": {"type": "rich_text", "elements": [section("12 tables")]},
}
SELECT: Json = {
    "type": "static_select",
    "action_id": "pick",
    "placeholder": words("Pick one"),
    "options": [{"text": words("A"), "value": "a"}, {"text": words("B"), "value": "b"}],
}
SAMPLES: dict[str, Json] = {
    "markdown": {"type": "markdown", "text": "**Hi**"},
    "section": {
        "type": "section",
        "text": {"type": "mrkdwn", "text": "*Hi*", "verbatim": True},
        "fields": [words("one"), words("two")],
        "accessory": SELECT,
        "expand": True,
    },
    "header": {"type": "header", "text": words("Title")},
    "context": {
        "type": "context",
        "elements": [words("note"), {"type": "image", "alt_text": "a", "image_url": "https://a.example/a.png"}],
    },
    "divider": {"type": "divider"},
    "actions": {
        "type": "actions",
        "block_id": "ap-17",
        "elements": [
            {"type": "button", "action_id": "approve", "style": "primary", "value": "ap-17", "text": words("Allow")},
            {"type": "button", "action_id": "deny", "value": "ap-17", "text": words("Deny"), "confirm": CONFIRM},
        ],
    },
    "context_actions": {
        "type": "context_actions",
        "elements": [
            {
                "type": "feedback_buttons",
                "action_id": "feedback",
                "positive_button": {"text": words("Good"), "value": "run-17:up"},
                "negative_button": {"text": words("Bad"), "value": "run-17:down", "accessibility_label": "Bad answer"},
            },
        ],
    },
    "image": {"type": "image", "alt_text": "Revenue", "slack_file": {"id": "F0123456789"}, "title": words("Revenue")},
    "input": {
        "type": "input",
        "label": words("Why"),
        "element": {"type": "plain_text_input", "action_id": "why", "multiline": True, "max_length": 3000},
        "optional": True,
    },
    "rich_text": RICH,
    "table": {
        "type": "table",
        "column_settings": [{"align": "left", "is_wrapped": True}, {"align": "right"}],
        "rows": [
            [raw("Region"), raw("Revenue")],
            [raw("North"), {"type": "rich_text", "elements": [section("1,200")]}],
        ],
    },
    "data_table": {
        "type": "data_table",
        "caption": "Revenue by region",
        "page_size": 10,
        "rows": [
            [raw("Region"), raw("Revenue")],
            [raw("North"), {"type": "raw_number", "value": 1200.5, "text": "$1,200.50"}],
        ],
    },
    "data_visualization": {
        "type": "data_visualization",
        "title": "Revenue",
        "chart": {
            "type": "bar",
            "series": [{"name": "2026", "data": [{"label": "Jan", "value": 12}, {"label": "Feb", "value": -3}]}],
            "axis_config": {"categories": ["Jan", "Feb"], "x_label": "Month"},
        },
    },
    "task_card": TASK,
}
WITHOUT_TYPE = frozenset({"data_visualization"})
"""Kinds that @slack/types does not know yet."""
