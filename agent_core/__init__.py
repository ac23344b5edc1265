"""The runtime: one agent core behind every place where a team talks. What users import stands in `parley`."""
