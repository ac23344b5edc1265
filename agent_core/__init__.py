"""The runtime: sessions, runs and their log."""

__all__: list[str] = []
