"""`tests/agent_core/runtime/test_answer.py`, by the engine of many processes."""

from tests.agent_core.runtime.test_answer import *  # noqa: F403
