"""What people send: looked at, proved to be what it says, made plain, and read as text, in confined processes."""
