"""To Slack: threads, streams, blocks, text."""
