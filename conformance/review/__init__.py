"""Differences between generated texts, grouped and reviewed."""
