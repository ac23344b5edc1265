"""Texts that people send, read in the server's own process: bounded in what they take."""

import subprocess
import sys

import pytest

from agent_core.errors import InvalidInput
from agent_core.uploads.reader import text_in
from tests.cases import for_each

MANY = """
import resource
from agent_core.uploads.reader import text_in
data = b"[" + b"{}," * 3_300_000 + b"{}]"
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
text_in(data, "application/json")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.whole
def test_json_is_checked_without_its_objects():
    """JSON of three million objects takes a few times its own 10 MB, not the 240 MB of the objects."""
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60_000


@for_each("data", [b"{", b"[1,]", b'{"a":}', b"[01]", b"{} x", b"nul", b"[" * 100_000, b'"\\x"'])
def test_what_is_no_json_is_refused(data: bytes):
    """The whole syntax is checked, and nesting that goes too deep is refused too."""
    with pytest.raises(InvalidInput, match="no JSON"):
        text_in(data, "application/json")
