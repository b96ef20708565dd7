"""Writes to disk and reads: snapshots, binaries, runs. Accepts what a run generated."""
