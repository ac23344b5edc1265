"""A tool of one's own finds the same libraries under pytest as in a real server: `own_tools/test_processes.py`."""

import json

import jwt

from tests.app.signing import sign


def check(result: str) -> None:
    """Verify the token in *result* with the public key beside it."""
    signed = json.loads(result)
    assert jwt.get_unverified_header(signed["token"])["alg"] == "RS256"
    assert jwt.decode(signed["token"], signed["key"], algorithms=["RS256"]) == {"sub": "ann"}


async def test_a_tool_that_signs_with_rs256_works_under_pytest():
    """In this process PyJWT signs with a key pair."""
    check(await sign(subject="ann"))
