"""`tests/agent_core/test_stop_session.py`, by the engine of many processes."""

from tests.agent_core.test_stop_session import *  # noqa: F403
