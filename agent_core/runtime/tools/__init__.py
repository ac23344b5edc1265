"""The tools of a core, stored or made by code: their catalogue, checks, dry runs and secrets."""
