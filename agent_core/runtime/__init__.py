"""What drives runs: opening, segments, the driver, calls, approvals."""
