"""Model providers: one module per wire, all speaking the neutral stream of `base`."""
