"""The byte pipe under every provider: what it says of failures, and what it keeps to itself."""

from types import SimpleNamespace

import httpx2
import pytest

from agent_core.providers.base import CallFailed, ModelTextDelta
from agent_core.providers.client import Sdk, SdkClient
from agent_core.providers.failing import MAX_SAID, failed
from tests.cases import for_each

KEY = "Zebra.7731/quagga+okapi"
URL = httpx2.URL("http://acme.invalid")


async def discreet(said: str, key: str = KEY) -> str:
    """Return the operator's text of a failure in which a server said so."""
    client = SdkClient("acme", lambda: Sdk(SimpleNamespace(api_key=key, base_url=URL), SimpleNamespace()), idle=1)
    await client.prepare()
    delta, failure = client._redacted(lambda: [ModelTextDelta(0, said), failed("auth", said)])
    assert delta == ModelTextDelta(0, said)
    assert isinstance(failure, CallFailed)
    return failure.message


@for_each("said", [f"The key {KEY} is unknown", KEY, f"{KEY}{KEY}"])
async def test_a_key_that_a_server_repeats_is_taken_out(said):
    """Whatever a key looks like, a failure does not hold it; text of an answer is not touched."""
    found = await discreet(said)
    assert KEY not in found
    assert "[secret]" in found


async def test_a_key_that_the_text_cuts_is_taken_out():
    """Nothing of a key is left where the text of a server ends in the middle of it."""
    for begin in range(MAX_SAID - len(KEY), MAX_SAID - len(KEY) // 2):
        found = await discreet("x" * (begin - 1) + " " + KEY + " and so on" * 9)
        assert KEY[:5] not in found, begin


KEYS = ["sk-abcdef12/SECRETRESTOFKEY+more==", "sk-abcdef12:SECRETREST99", "my-very-secret-key-998877"]


@for_each("key", KEYS)
@for_each("cut", [0, 4])
@for_each("said", ["Unknown key: {}.", "token={}", "{}", "Bearer {}{}", "wrapped {}\\n", "<{}>"])
async def test_no_piece_of_a_key_is_left(key, cut, said):
    """What looks like a key is masked after the key is taken out, so that neither leaves a part of it."""
    echo = key[: len(key) - cut]
    found = await discreet(said.format(echo, echo), key)
    left = {key[n : n + 6] for n in range(len(key) - 5)} - {"secret"}
    assert not [piece for piece in left if piece in found], found


async def test_a_word_is_no_key():
    """A stand-in such as `none`, for servers that want no key, is not taken out of sentences."""
    assert "none of these" in await discreet("I know none of these.", "none")


async def test_a_client_that_was_never_made_closes():
    """An SDK that cannot be imported fails each call, and the end of the process not at all."""

    def make():
        raise ImportError("no such SDK")

    client = SdkClient("acme", make, idle=1)
    await client.close()
    with pytest.raises(ImportError):
        await client.prepare()
    await client.close()
