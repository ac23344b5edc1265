"""The HTTP API: one router per resource, one error map, one way to stream events."""
