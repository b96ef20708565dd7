"""Targets, what this machine has, and the environment that is settled before torch is imported."""
