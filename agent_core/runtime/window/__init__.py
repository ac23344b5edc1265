"""How full windows are, what sums them up, and how their prompts stay in the provider's cache."""
