"""What is written to disk: snapshots, runs, binaries; and accepting."""
