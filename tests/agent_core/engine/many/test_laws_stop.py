"""`tests/agent_core/test_laws_stop.py`, by the engine of many processes."""

from tests.agent_core.test_laws_stop import *  # noqa: F403
