"""Compares compiled results with eager and with float64."""
