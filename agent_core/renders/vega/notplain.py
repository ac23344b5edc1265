"""Why a chart is not reduced."""


class NotPlain(Exception):
    """The chart is none of the plain ones, or it is not certain that it would show the same; never leaves the room."""
