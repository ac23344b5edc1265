"""Tables and charts: as values that any surface can draw, as text, and drawn as pictures."""
