"""`tests/agent_core/test_answer.py`, by the engine of many processes."""

from tests.agent_core.test_answer import *  # noqa: F403
