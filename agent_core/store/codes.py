"""The numbers that stand for event types in the table. Numbers are never reused or changed."""

CODES: dict[str, int] = {
    "session.opened": 1,
    "snapshot.frozen": 2,
    "context.added": 3,
    "context.compacted": 4,
    "message.received": 10,
    "message.corrected": 11,
    "message.completed": 12,
    "run.queued": 20,
    "run.started": 21,
    "run.waiting": 22,
    "run.resumed": 23,
    "run.cancelling": 24,
    "run.completed": 25,
    "run.failed": 26,
    "run.cancelled": 27,
    "step.started": 30,
    "step.failed": 31,
    "step.completed": 32,
    "tool.requested": 40,
    "tool.started": 41,
    "tool.pending": 42,
    "tool.completed": 43,
}
TYPES: dict[int, str] = {code: name for name, code in CODES.items()}
