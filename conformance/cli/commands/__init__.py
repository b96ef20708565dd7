"""The commands of `python -m conformance`, one module each.

A module has DESCRIPTION and EXAMPLES for `--help`, `add_arguments(parser)`, and `run(arguments)`, which returns the
exit status.
"""
