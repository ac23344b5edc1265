"""Hooks: what an agent's author puts between the loop and its effects."""
