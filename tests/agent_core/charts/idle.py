"""A worker in the renderer's place, for what does not depend on it: a process of it starts in a tenth of the time.

It is loaded by its path in a confined process, as `agent_core/charts/renderer.py` is.
"""

import json
import threading
from collections.abc import Callable


def prepared() -> Callable[[bytes], tuple[bool, bytes]]:
    """Return what answers each job with a head of PNG and its title; a job of `endless` never ends."""
    return _taken


def _taken(message: bytes) -> tuple[bool, bytes]:
    spec = json.loads(message)["spec"]
    if "transform" in spec:
        threading.Event().wait()
    return True, b"\x89PNG\r\n\x1a\n" + spec["title"].encode()
