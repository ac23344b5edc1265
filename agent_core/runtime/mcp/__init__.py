"""What runs know of MCP servers: their catalogue, discovery, and the tools that they offer."""
