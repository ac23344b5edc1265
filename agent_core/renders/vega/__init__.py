"""Vega-Lite as data: what of it is drawn, and which charts reduce to a plain one; pure."""
