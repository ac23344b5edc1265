"""Slack's limits: one table of numbers, each with its unit, its source and its date.

Code asks this table and has no numbers of its own. Where Slack's pages contradict one another the lower value is used
with a note; of tables and charts that of the newer page, since what is refused is sent in a plainer form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Limit(Generic[Number]):
    """One row. *source* is a page of docs.slack.dev, `measured` by others in live workspaces, or `ours`: our choice."""

    value: Number
    unit: str
    source: str
    date: str
    note: str = ""


def _documented(value: Number, unit: str, page: str, note: str = "") -> Limit[Number]:
    return Limit(value, unit, f"https://docs.slack.dev/{page}", "2026-11", note)


def _measured(value: Number, unit: str, note: str) -> Limit[Number]:
    return Limit(value, unit, "measured", "2026-11", note)


def _ours(value: Number, unit: str, note: str) -> Limit[Number]:
    return Limit(value, unit, "ours", "2026-11", note)


_KIT = "reference/block-kit"
_METHODS = "reference/methods"

# ---- messages -------------------------------------------------------------------------------------

TEXT = _documented(
    4_000, "characters", f"{_METHODS}/chat.postMessage", "advice for posts, a hard limit for chat.update"
)
TEXT_HARD = _documented(40_000, "characters", f"{_METHODS}/chat.postMessage", "Slack cuts longer text")
MARKDOWN = _documented(12_000, "characters", f"{_KIT}/blocks/markdown-block", "over all markdown blocks of one payload")
RICH_TEXT = _ours(12_000, "characters", "no page has a limit; over all rich_text of one payload, as for markdown")
BLOCKS_PER_MESSAGE = _documented(50, "blocks", f"{_KIT}/blocks")
BLOCKS_PER_VIEW = _documented(100, "blocks", f"{_KIT}/blocks", "modals and the Home tab")
BLOCK_ID = _documented(255, "characters", f"{_KIT}/blocks", "unique in the message")
ACTION_ID = _documented(255, "characters", f"{_KIT}/block-elements", "unique within its block")

# ---- blocks ---------------------------------------------------------------------------------------

SECTION_TEXT = _documented(3_000, "characters", f"{_KIT}/blocks/section-block")
SECTION_FIELDS = _documented(10, "fields", f"{_KIT}/blocks/section-block")
SECTION_FIELD = _documented(2_000, "characters", f"{_KIT}/blocks/section-block")
HEADER_TEXT = _documented(150, "characters", f"{_KIT}/blocks/header-block")
HEADER_LEVEL = _documented(4, "level", f"{_KIT}/blocks/header-block")
CONTEXT_ELEMENTS = _documented(10, "elements", f"{_KIT}/blocks/context-block")
CONTEXT_TEXT = _documented(3_000, "characters", f"{_KIT}/composition-objects/text-object", "of any text object")
ACTIONS_ELEMENTS = _documented(25, "elements", f"{_KIT}/blocks/actions-block")
CONTEXT_ACTIONS_ELEMENTS = _documented(5, "elements", f"{_KIT}/blocks/context-actions-block")
IMAGE_ALT = _documented(2_000, "characters", f"{_KIT}/blocks/image-block")
IMAGE_URL = _documented(3_000, "characters", f"{_KIT}/blocks/image-block")
IMAGE_TITLE = _documented(2_000, "characters", f"{_KIT}/blocks/image-block")
INPUT_LABEL = _documented(2_000, "characters", f"{_KIT}/blocks/input-block")
INPUT_HINT = _documented(2_000, "characters", f"{_KIT}/blocks/input-block")
TABLES_PER_MESSAGE = _documented(
    1, "blocks", f"{_KIT}/blocks/table-block", "`only_one_table_allowed`; newer pages: a sum over several tables"
)
TABLE_ROWS = _documented(100, "rows", f"{_KIT}/blocks/table-block")
TABLE_CELLS = _documented(20, "cells in a row", f"{_KIT}/blocks/table-block")
TABLE_COLUMN_SETTINGS = _documented(20, "entries", f"{_KIT}/blocks/table-block")
TABLE_TEXT = _documented(
    10_000, "characters", f"{_KIT}/blocks/table-block", "per table and over all tables of a message"
)
DATA_TABLE_ROWS = _documented(
    200, "data rows", f"{_KIT}/blocks/data-table-block", "older pages: 100; the header not counted"
)
DATA_TABLE_COLUMNS = _documented(20, "columns", f"{_KIT}/blocks/data-table-block")
DATA_TABLE_TEXT = _documented(
    20_000, "characters", f"{_KIT}/blocks/data-table-block", "older pages: 10,000; also in sum"
)
DATA_TABLE_PAGE = _documented(100, "rows", f"{_KIT}/blocks/data-table-block", "from 1, default 5")
CHARTS_PER_MESSAGE = _documented(2, "blocks", f"{_KIT}/blocks/data-visualization-block")
CHART_TITLE = _documented(50, "characters", f"{_KIT}/blocks/data-visualization-block")
CHART_SEGMENTS = _documented(12, "segments", f"{_KIT}/blocks/data-visualization-block", "older pages: 6")
CHART_SERIES = _documented(12, "series", f"{_KIT}/blocks/data-visualization-block", "older pages: 6")
CHART_NAME = _documented(20, "characters", f"{_KIT}/blocks/data-visualization-block", "series, segments and categories")
CHART_POINTS = _documented(20, "points", f"{_KIT}/blocks/data-visualization-block", "exactly one per category")
CHART_AXIS = _documented(50, "characters", f"{_KIT}/blocks/data-visualization-block")
TABLE_CAPTION = _ours(150, "characters", "no page has a limit; as of a header")
DRAWN_BLOCKS = _ours(30, "blocks", "of tables and charts in one message: its text and what is around it need the rest")
DRAWN_TEXT = _ours(2_000, "characters", "of tables and charts in a message's text; as blocks they need no more")
TASK_TEXT = _documented(256, "characters", f"{_METHODS}/chat.appendStream", "string fields of task and plan updates")

# ---- elements and composition objects -------------------------------------------------------------

BUTTON_TEXT = _documented(75, "characters", f"{_KIT}/block-elements/button-element")
BUTTON_VALUE = _documented(2_000, "characters", f"{_KIT}/block-elements/button-element")
BUTTON_URL = _documented(3_000, "characters", f"{_KIT}/block-elements/button-element")
ACCESSIBILITY_LABEL = _documented(75, "characters", f"{_KIT}/block-elements/button-element")
CONFIRM_TITLE = _documented(100, "characters", f"{_KIT}/composition-objects/confirmation-dialog-object")
CONFIRM_TEXT = _documented(300, "characters", f"{_KIT}/composition-objects/confirmation-dialog-object")
CONFIRM_BUTTON = _documented(30, "characters", f"{_KIT}/composition-objects/confirmation-dialog-object")
OPTIONS = _documented(100, "options", f"{_KIT}/block-elements/select-menu-element")
OPTION_TEXT = _documented(75, "characters", f"{_KIT}/composition-objects/option-object", "also of its description")
OPTION_VALUE = _documented(75, "characters", f"{_KIT}/composition-objects/option-object", "other pages: 150")
CHOICES = _documented(10, "options", f"{_KIT}/block-elements/checkboxes-element", "checkboxes and radio buttons")
PLACEHOLDER = _documented(150, "characters", f"{_KIT}/block-elements/plain-text-input-element")
INPUT_TEXT = _documented(
    3_000, "characters", f"{_KIT}/block-elements/plain-text-input-element", "min_length and max_length"
)

# ---- views, prompts, sessions ---------------------------------------------------------------------

VIEW_TITLE = _documented(24, "characters", "surfaces/modals", "title, submit and close")
VIEW_CALLBACK_ID = _documented(255, "characters", "surfaces/modals")
VIEW_METADATA = _documented(3_000, "characters", "surfaces/modals", "private_metadata")
VIEW_BYTES = _documented(250_000, "bytes", "surfaces/modals", "view_too_large")
TRIGGER_AGE = _documented(3, "seconds", "surfaces/modals", "a trigger_id serves once")
PROMPTS = _documented(4, "prompts", f"{_METHODS}/assistant.threads.setSuggestedPrompts")
SESSION_TITLE = _documented(200, "characters", f"{_METHODS}/agents.sessions.rename")
LOADING_MESSAGES = _documented(10, "texts", f"{_METHODS}/assistant.threads.setStatus")
PROCESSING_AGE = _documented(
    3_600, "seconds", f"{_METHODS}/agents.sessions.setStatus", "then the status is active again"
)
RESPONSE_URL_AGE = _documented(1_800, "seconds", "interactivity/handling-user-interaction")
RESPONSE_URL_USES = _documented(5, "uses", "interactivity/handling-user-interaction")

# ---- files ----------------------------------------------------------------------------------------

FILE_ALT = _documented(1_000, "characters", f"{_METHODS}/files.getUploadURLExternal", "alt_txt")
FILE_BYTES = _ours(50_000_000, "bytes", "Slack's own is said to be 1 GB; a table or a drawing is far smaller")
FILE_READY = _measured(1.5, "seconds", "after which an image block with a fresh file is tried once more: 1 to 2 s")

# ---- streaming ------------------------------------------------------------------------------------

STREAM_CALL_TEXT = _documented(
    12_000, "characters", f"{_METHODS}/chat.appendStream", "markdown_text, or all text chunks"
)
STREAM_CALL_BLOCKS = _documented(50, "blocks", f"{_METHODS}/chat.stopStream", "of a blocks chunk, and of the stop")
STREAM_AGE = _measured(300, "seconds", "from the start, however often text is appended (5.2 to 5.3 min measured)")
STREAM_ROLL_AGE = _ours(240, "seconds", "a fresh stream is begun well before the old one expires")
STREAM_ROLL_TEXT = _ours(11_000, "characters", "the size of a finished stream has no documented limit")
APPEND_EVERY = _measured(0.6, "seconds", "between two appends of one stream")
EDIT_EVERY = _documented(3.0, "seconds", "apis/web-api/rate-limits", "between two updates of one message")

# ---- intake ---------------------------------------------------------------------------------------

ACK_WITHIN = _documented(3, "seconds", "apis/events-api")
EVENT_RETRY_1 = _documented(0, "seconds", "apis/events-api", "nearly at once")
EVENT_RETRY_2 = _documented(60, "seconds", "apis/events-api")
EVENT_RETRY_3 = _documented(300, "seconds", "apis/events-api")
SOCKETS = _documented(10, "connections", "apis/events-api/using-socket-mode")

# ---- rates: calls of one method, per workspace and app, in a rolling window -------------------------

_RATES = "apis/web-api/rate-limits"
RATE_WINDOW = _documented(60, "seconds", _RATES)
TIER_1 = _documented(1, "calls per minute", _RATES)
TIER_2 = _documented(20, "calls per minute", _RATES, "`most methods`: also those that have no row")
TIER_3 = _documented(50, "calls per minute", _RATES)
TIER_4 = _documented(100, "calls per minute", _RATES)
POSTS_PER_CHANNEL = _documented(
    1, "posts per second", _RATES, "of one channel; short bursts are allowed, of unknown size"
)
POSTS_PER_WORKSPACE = _documented(
    200, "calls per minute", _RATES, "unpublished: several hundred, so the least of these"
)
SPECIAL = _documented(50, "calls per minute", _RATES, "special and unpublished: taken for Tier 3")

RATES: Mapping[str, Limit[int]] = MappingProxyType({
    "agents.sessions.rename": TIER_3,
    "agents.sessions.setStatus": TIER_3,
    "assistant.threads.setStatus": SPECIAL,
    "assistant.threads.setSuggestedPrompts": TIER_4,
    "auth.test": SPECIAL,
    "chat.appendStream": TIER_4,
    "chat.getPermalink": SPECIAL,
    "chat.postEphemeral": TIER_4,
    "chat.postMessage": POSTS_PER_WORKSPACE,
    "chat.startStream": TIER_2,
    "chat.stopStream": TIER_2,
    "chat.update": TIER_3,
    "conversations.history": TIER_3,
    "conversations.info": TIER_3,
    "conversations.open": TIER_3,
    "conversations.replies": TIER_3,
    "files.completeUploadExternal": TIER_4,
    "files.getUploadURLExternal": TIER_4,
    "files.info": TIER_4,
    "usergroups.users.list": TIER_2,
    "users.info": TIER_4,
    "views.open": TIER_4,
})  # fmt: skip


def rate(method: str) -> Limit[int]:
    """Return how often *method* may be called per `RATE_WINDOW`."""
    return RATES.get(method, TIER_2)


LIMITS: Mapping[str, Limit[Any]] = MappingProxyType({
    name: cast("Limit[Any]", found) for name, found in list(globals().items()) if isinstance(found, Limit)
})  # fmt: skip
