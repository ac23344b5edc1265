"""`parley dev`: a project served while it is worked on."""
