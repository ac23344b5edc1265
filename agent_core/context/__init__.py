"""What the model sees: the frozen snapshot and the window. Pure."""
