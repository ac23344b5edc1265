"""Postgres: the database and the bus between processes."""
