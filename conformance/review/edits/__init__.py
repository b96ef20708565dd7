"""Finds the edits between two texts of generated code: parts, lines, tokens."""
