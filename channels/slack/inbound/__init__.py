"""From Slack: payloads, mentions, commands, clicks."""
