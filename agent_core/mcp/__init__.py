"""Tools of MCP servers: connections, calls, and what they return."""
