"""Tools that are defined, MCP servers and secrets, as transactions."""
