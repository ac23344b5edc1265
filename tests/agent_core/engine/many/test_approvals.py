"""`tests/agent_core/test_approvals.py`, by the engine of many processes."""

from tests.agent_core.test_approvals import *  # noqa: F403
