"""Hooks that record what Inductor decides: one observer for each decision."""
