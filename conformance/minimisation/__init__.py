"""Minimisation: the smallest program that fails in the same way, and the part of the compiler that makes it wrong."""
