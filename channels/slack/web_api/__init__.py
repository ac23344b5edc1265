"""Slack's Web API: calls, failures, rates."""
