"""Engines: pools of driven runs, and sweeps that find the ones that are due."""
