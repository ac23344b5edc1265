"""What a serving process needs besides the API: the HTTP server, signals, readiness, open streams and metrics."""
