"""The command `parley`: its subcommands, and the HTTP client that most of them are."""
