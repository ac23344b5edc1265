"""OpenAPI documents as definitions of HTTP tools: `parley tools import`."""
