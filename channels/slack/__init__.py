"""The Slack channel: how a thread becomes a session, and how an answer is shown there exactly once."""
