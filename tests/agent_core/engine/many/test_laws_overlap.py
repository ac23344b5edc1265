"""`tests/agent_core/test_laws_overlap.py`, by the engine of many processes."""

from tests.agent_core.test_laws_overlap import *  # noqa: F403
