"""HTTP tools: definitions whose calls are requests to an API."""
