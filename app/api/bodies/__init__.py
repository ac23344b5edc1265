"""What clients send and what they get: bodies, objects of the API, and their schemas."""
