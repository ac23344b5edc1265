"""Bring a database up to date."""
