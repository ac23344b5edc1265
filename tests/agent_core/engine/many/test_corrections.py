"""`tests/agent_core/test_corrections.py`, by the engine of many processes."""

from tests.agent_core.test_corrections import *  # noqa: F403
