"""A Slack stand-in: a local server that speaks the parts of Slack that Parley uses, as strictly as Slack does."""
