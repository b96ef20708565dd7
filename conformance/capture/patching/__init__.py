"""Patches of torch, and whether the installed torch has the names that they replace."""
