"""Reading sessions: following, loading for a run, lists."""
