"""What the tests of Slack share."""

from tests.channels.slack.showing import showing
from tests.channels.slack.typed import typed_blocks

__all__ = ["showing", "typed_blocks"]
