"""A worker of the next version, as `worker` is one of this: it begins each step with a fact of a type of its own."""

import asyncio
import importlib.util
import json
import sys
from pathlib import Path

NEXT = 230
"""The type's number, which this version does not know."""
_CODES = "agent_core.store.codes"


def update() -> None:
    """Have everything that is imported from now on work with the numbers of the next version."""
    spec = importlib.util.spec_from_file_location(_CODES, Path(__file__).parents[3] / "agent_core/store/codes.py")
    assert spec is not None
    assert spec.loader is not None
    codes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(codes)
    codes.CODES["step.started"] = NEXT
    codes.TYPES[NEXT] = "step.started"
    sys.modules[_CODES] = codes


if __name__ == "__main__":
    update()
    from tests.agent_core.engine.worker import main

    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
