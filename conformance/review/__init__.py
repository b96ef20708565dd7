"""Compares generated texts, finds the causes of their changes, and reviews them."""
