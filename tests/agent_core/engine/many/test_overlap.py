"""`tests/agent_core/test_overlap.py`, by the engine of many processes."""

from tests.agent_core.test_overlap import *  # noqa: F403
