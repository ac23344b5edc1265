"""The published schemas as the tests check with them: compiled once for each process."""

from functools import cache

from jsonschema_rs import Draft202012Validator

from app.api.schemas import events_schema


@cache
def frame_schema() -> Draft202012Validator:
    """Return what checks frames of the event streams, each as `{id?, event, data}`."""
    return Draft202012Validator(events_schema())
