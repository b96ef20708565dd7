"""The end of a run: how each item ended, what is printed of it, and what CI shows."""
