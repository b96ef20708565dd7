"""What users lay over the suite's own targets, snapshots and known failures: how a run uses it, and reports it."""
