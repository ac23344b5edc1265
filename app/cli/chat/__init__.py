"""`parley chat`: a conversation in the terminal."""
