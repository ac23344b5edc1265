"""The store: tables, the append-only log, the catalog of agents, blobs."""
