"""The web channel: who a visitor is, what a visitor sees, and the pages and scripts that a browser loads."""
