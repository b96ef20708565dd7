"""Finds the edits between two texts of generated code: parts, lines, tokens. conformance.review.groups groups them."""
