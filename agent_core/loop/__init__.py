"""What has happened and what comes next: pure functions of the log."""
