"""Access in the database: API keys, revocations, operations, and the deletion of a person."""
