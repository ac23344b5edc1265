"""The Chat Completions API that many vendors and servers speak."""
