"""Numerics that passed before are not run again: the digest of all that they depend on, and its look-up."""
