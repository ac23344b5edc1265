"""How often Python's collector looks at what a process has made."""

SELDOM = (20_000, 50, 100)
"""Its thresholds: how many objects more, and how many looks at younger ones.

With Python's own a fifth of a start goes into looks at what imports have made, which stays.
"""
