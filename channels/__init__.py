"""The places where people talk to agents."""
