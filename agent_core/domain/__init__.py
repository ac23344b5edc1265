"""Values that everything else is made of: messages, events, agents, controls, hooks. No I/O."""
