"""A project of one's own: what `parley init` makes."""
