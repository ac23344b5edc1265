"""Renders as values: tables and charts that any surface can draw, their texts and files; pure."""
