"""The agent as pure functions of the log: what has happened, what comes next, and what the model sees of it."""
