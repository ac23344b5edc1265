"""Which authorities clients of HTTPS trust: read once, as reading all of them takes 40 ms and a megabyte."""

import os
import ssl
from functools import cache

import httpx2


def trusted() -> ssl.SSLContext:
    """Return whom clients trust, as the environment says now; all that say the same share it, so it is not changed."""
    return _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _trusted(*_environment: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
