"""From two texts of generated code to the edits between them: parts, lines, tokens. See `conformance.changes`."""
