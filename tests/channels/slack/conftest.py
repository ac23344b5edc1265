"""What the tests of Slack share."""

from tests.channels.slack.showing import showing
from tests.channels.slack.typed import taken_blocks, typed_blocks

__all__ = ["showing", "taken_blocks", "typed_blocks"]
