"""The guarded fetch: HTTP requests to addresses that users name."""
