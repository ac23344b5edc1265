"""A stored secret as it is listed. Pure."""

import msgspec


class SecretObject(msgspec.Struct, frozen=True, kw_only=True):
    """A secret without its value; times are milliseconds."""

    name: str
    created_at: int
    updated_at: int
