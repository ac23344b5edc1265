"""Agents as the API edits them and as runs use them, and what they are checked against."""
