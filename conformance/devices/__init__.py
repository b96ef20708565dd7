"""Targets, the devices and compilers of this machine, and the environment that must be set before torch is imported."""
