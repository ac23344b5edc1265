"""Approvals as cards and forms."""
