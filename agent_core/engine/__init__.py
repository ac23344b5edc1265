"""Engines: they ring runs and see that somebody drives them."""
