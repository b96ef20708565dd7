"""The commands of `python -m conformance`, a file each: `add(subparsers)` declares one and names what runs it."""
