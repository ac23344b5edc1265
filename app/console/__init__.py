"""The operator's page."""
