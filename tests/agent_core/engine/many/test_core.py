"""`tests/agent_core/test_core.py`, by the engine of many processes."""

from tests.agent_core.test_core import *  # noqa: F403
