"""Mutation testing of Inductor: parts of benchmarks/mutants.py."""
