"""Compiled results compared with eager and with float64."""
