"""The two languages of `output`: JMESPath within bounds, and jq in a process of its own."""
