"""Compares generated texts, groups their changes by edit, and reviews them."""
