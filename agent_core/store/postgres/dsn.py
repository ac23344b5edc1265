"""The address of a Postgres as people write it, converted for our drivers."""

from urllib.parse import parse_qsl, urlencode, urlsplit

# asyncpg reads these or passes them on; it takes all others for settings of the server, which then refuses the
# connection. psycopg uses libpq, which knows them all, `channel_binding` for example.
_KNOWN = frozenset((
    *("host", "port", "dbname", "user", "password", "passfile", "service", "target_session_attrs"),
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname"),
    *("application_name", "options"),
))  # fmt: skip


def for_asyncpg(url: str) -> str:
    """Return *url* (`postgres://…`, `postgresql://…`) as `asyncpg.connect` takes it, without libpq's own options."""
    parts = urlsplit(url)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name in _KNOWN])
    return f"postgresql://{parts.netloc}{parts.path}{'?' if query else ''}{query}"
