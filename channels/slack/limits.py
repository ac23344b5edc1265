"""Slack's limits: each with its unit, and the page of docs.slack.dev that says it, as of 2026-11.

Code asks this table and has no numbers of its own. `measured` is by others in live workspaces, `ours` our choice. Where
Slack's pages contradict one another the lower value is used with a note; of tables and charts that of the newer page,
since what is refused is sent in a plainer form.
"""

from collections.abc import Mapping
from types import MappingProxyType

# ---- messages -------------------------------------------------------------------------------------

TEXT = 4_000  # characters; reference/methods/chat.postMessage; advice for posts, a hard limit for chat.update
TEXT_HARD = 40_000  # characters; reference/methods/chat.postMessage; Slack cuts longer text
MARKDOWN = 12_000  # characters; reference/block-kit/blocks/markdown-block; over all markdown blocks of one payload
RICH_TEXT = 12_000  # characters; ours; no page has a limit; over all rich_text of one payload, as for markdown
BLOCKS_PER_MESSAGE = 50  # blocks; reference/block-kit/blocks
BLOCKS_PER_VIEW = 100  # blocks; reference/block-kit/blocks; modals and the Home tab
BLOCK_ID = 255  # characters; reference/block-kit/blocks; unique in the message
ACTION_ID = 255  # characters; reference/block-kit/block-elements; unique within its block

# ---- blocks ---------------------------------------------------------------------------------------

SECTION_TEXT = 3_000  # characters; reference/block-kit/blocks/section-block
SECTION_FIELDS = 10  # fields; reference/block-kit/blocks/section-block
SECTION_FIELD = 2_000  # characters; reference/block-kit/blocks/section-block
HEADER_TEXT = 150  # characters; reference/block-kit/blocks/header-block
HEADER_LEVEL = 4  # level; reference/block-kit/blocks/header-block
CONTEXT_ELEMENTS = 10  # elements; reference/block-kit/blocks/context-block
CONTEXT_TEXT = 3_000  # characters; reference/block-kit/composition-objects/text-object; of any text object
ACTIONS_ELEMENTS = 25  # elements; reference/block-kit/blocks/actions-block
CONTEXT_ACTIONS_ELEMENTS = 5  # elements; reference/block-kit/blocks/context-actions-block
IMAGE_ALT = 2_000  # characters; reference/block-kit/blocks/image-block
IMAGE_URL = 3_000  # characters; reference/block-kit/blocks/image-block
IMAGE_TITLE = 2_000  # characters; reference/block-kit/blocks/image-block
INPUT_LABEL = 2_000  # characters; reference/block-kit/blocks/input-block
INPUT_HINT = 2_000  # characters; reference/block-kit/blocks/input-block
# blocks; reference/block-kit/blocks/table-block; `only_one_table_allowed`; newer pages: a sum over several tables
TABLES_PER_MESSAGE = 1
TABLE_ROWS = 100  # rows; reference/block-kit/blocks/table-block
TABLE_CELLS = 20  # cells in a row; reference/block-kit/blocks/table-block
TABLE_COLUMN_SETTINGS = 20  # entries; reference/block-kit/blocks/table-block
TABLE_TEXT = 10_000  # characters; reference/block-kit/blocks/table-block; per table and over all tables of a message
# data rows; reference/block-kit/blocks/data-table-block; older pages: 100; the header not counted
DATA_TABLE_ROWS = 200
DATA_TABLE_COLUMNS = 20  # columns; reference/block-kit/blocks/data-table-block
DATA_TABLE_TEXT = 20_000  # characters; reference/block-kit/blocks/data-table-block; older pages: 10,000; also in sum
DATA_TABLE_PAGE = 100  # rows; reference/block-kit/blocks/data-table-block; from 1, default 5
CHARTS_PER_MESSAGE = 2  # blocks; reference/block-kit/blocks/data-visualization-block
CHART_TITLE = 50  # characters; reference/block-kit/blocks/data-visualization-block
CHART_SEGMENTS = 12  # segments; reference/block-kit/blocks/data-visualization-block; older pages: 6
CHART_SERIES = 12  # series; reference/block-kit/blocks/data-visualization-block; older pages: 6
CHART_NAME = 20  # characters; reference/block-kit/blocks/data-visualization-block; series, segments and categories
CHART_POINTS = 20  # points; reference/block-kit/blocks/data-visualization-block; exactly one per category
CHART_AXIS = 50  # characters; reference/block-kit/blocks/data-visualization-block
TABLE_CAPTION = 150  # characters; ours; no page has a limit; as of a header
DRAWN_BLOCKS = 30  # blocks; ours; of tables and charts in one message: its text and what is around it need the rest
DRAWN_TEXT = 2_000  # characters; ours; of tables and charts in a message's text; as blocks they need no more
TASK_TEXT = 256  # characters; reference/methods/chat.appendStream; string fields of task and plan updates

# ---- elements and composition objects -------------------------------------------------------------

BUTTON_TEXT = 75  # characters; reference/block-kit/block-elements/button-element
BUTTON_VALUE = 2_000  # characters; reference/block-kit/block-elements/button-element
BUTTON_URL = 3_000  # characters; reference/block-kit/block-elements/button-element
ACCESSIBILITY_LABEL = 75  # characters; reference/block-kit/block-elements/button-element
CONFIRM_TITLE = 100  # characters; reference/block-kit/composition-objects/confirmation-dialog-object
CONFIRM_TEXT = 300  # characters; reference/block-kit/composition-objects/confirmation-dialog-object
CONFIRM_BUTTON = 30  # characters; reference/block-kit/composition-objects/confirmation-dialog-object
OPTIONS = 100  # options; reference/block-kit/block-elements/select-menu-element
OPTION_TEXT = 75  # characters; reference/block-kit/composition-objects/option-object; also of its description
OPTION_VALUE = 75  # characters; reference/block-kit/composition-objects/option-object; other pages: 150
CHOICES = 10  # options; reference/block-kit/block-elements/checkboxes-element; checkboxes and radio buttons
PLACEHOLDER = 150  # characters; reference/block-kit/block-elements/plain-text-input-element
INPUT_TEXT = 3_000  # characters; reference/block-kit/block-elements/plain-text-input-element; min_length and max_length

# ---- views, prompts, sessions ---------------------------------------------------------------------

VIEW_TITLE = 24  # characters; surfaces/modals; title, submit and close
VIEW_CALLBACK_ID = 255  # characters; surfaces/modals
VIEW_METADATA = 3_000  # characters; surfaces/modals; private_metadata
VIEW_BYTES = 250_000  # bytes; surfaces/modals; view_too_large
TRIGGER_AGE = 3  # seconds; surfaces/modals; a trigger_id serves once
PROMPTS = 4  # prompts; reference/methods/assistant.threads.setSuggestedPrompts
SESSION_TITLE = 200  # characters; reference/methods/agents.sessions.rename
LOADING_MESSAGES = 10  # texts; reference/methods/assistant.threads.setStatus
PROCESSING_AGE = 3_600  # seconds; reference/methods/agents.sessions.setStatus; then the status is active again
RESPONSE_URL_AGE = 1_800  # seconds; interactivity/handling-user-interaction
RESPONSE_URL_USES = 5  # uses; interactivity/handling-user-interaction

# ---- files ----------------------------------------------------------------------------------------

FILE_ALT = 1_000  # characters; reference/methods/files.getUploadURLExternal; alt_txt
FILE_BYTES = 50_000_000  # bytes; ours; Slack's own is said to be 1 GB; a table or a drawing is far smaller
FILE_READY = 1.5  # seconds; measured; after which an image block with a fresh file is tried once more: 1 to 2 s

# ---- streaming ------------------------------------------------------------------------------------

STREAM_CALL_TEXT = 12_000  # characters; reference/methods/chat.appendStream; markdown_text, or all text chunks
STREAM_CALL_BLOCKS = 50  # blocks; reference/methods/chat.stopStream; of a blocks chunk, and of the stop
STREAM_AGE = 300  # seconds; measured; from the start, however often text is appended (5.2 to 5.3 min measured)
STREAM_ROLL_AGE = 240  # seconds; ours; a fresh stream is begun well before the old one expires
APPEND_EVERY = 0.6  # seconds; measured; between two appends of one stream
EDIT_EVERY = 3.0  # seconds; apis/web-api/rate-limits; between two updates of one message

# ---- intake ---------------------------------------------------------------------------------------

ACK_WITHIN = 3  # seconds; apis/events-api
EVENT_RETRY_1 = 0  # seconds; apis/events-api; nearly at once
EVENT_RETRY_2 = 60  # seconds; apis/events-api
EVENT_RETRY_3 = 300  # seconds; apis/events-api
SOCKETS = 10  # connections; apis/events-api/using-socket-mode

# ---- rates: calls of one method, per workspace and app, in a rolling window -------------------------

RATE_WINDOW = 60  # seconds; apis/web-api/rate-limits
TIER_2 = 20  # calls per minute; apis/web-api/rate-limits; `most methods`: also those that have no row
TIER_3 = 50  # calls per minute; apis/web-api/rate-limits
TIER_4 = 100  # calls per minute; apis/web-api/rate-limits
# posts per second; apis/web-api/rate-limits; of one channel; short bursts are allowed, of unknown size
POSTS_PER_CHANNEL = 1
# calls per minute; apis/web-api/rate-limits; unpublished: several hundred, so the least of these
POSTS_PER_WORKSPACE = 200
SPECIAL = 50  # calls per minute; apis/web-api/rate-limits; special and unpublished: taken for Tier 3

RATES: Mapping[str, int] = MappingProxyType({
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


def rate(method: str) -> int:
    """Return how often *method* may be called per `RATE_WINDOW`."""
    return RATES.get(method, TIER_2)
