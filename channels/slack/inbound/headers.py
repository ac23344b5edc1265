"""What the headers of a request of Slack's look like, seen before its body is read; pure."""

import re
from collections.abc import Mapping

# Bolt and the SDK read these with `int` and compare them as they are: an odd one would be an error of theirs.
_TIMESTAMP = re.compile(r"[0-9]{1,11}", re.ASCII)
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}", re.ASCII)
FORM, SHORT = "application/x-www-form-urlencoded", 1_000
"""The media type of Slack's look at our certificate, and the bytes that it takes at most."""
UNSIGNED = "The request has no valid signature of Slack's that is at most five minutes old."


def signature(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the timestamp and the signature that *headers* have, not yet verified; None unless both are valid."""
    timestamp, signed = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
    return (timestamp, signed) if _TIMESTAMP.fullmatch(timestamp) and _SIGNATURE.fullmatch(signed) else None


def unsigned_bytes(headers: Mapping[str, str]) -> int:
    """Return how many bytes may be read of a request that is not signed: a short form may be Slack's `ssl_check`."""
    return SHORT if headers.get("content-type", "").startswith(FORM) else 0
