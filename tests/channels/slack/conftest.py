"""What the tests of Slack share."""

from tests.channels.slack.answers import showing
from tests.channels.slack.block_types import taken_blocks, typed_blocks

__all__ = ["showing", "taken_blocks", "typed_blocks"]
