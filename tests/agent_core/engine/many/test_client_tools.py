"""`tests/agent_core/test_client_tools.py`, by the engine of many processes."""

from tests.agent_core.test_client_tools import *  # noqa: F403
