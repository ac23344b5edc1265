"""Transactions, each a function of a `Connection`."""
