"""Compose the parts: settings, HTTP API, command line."""
