"""The parts of `benchmarks/explore.py`: how each fuzzer is run, and how what it reports is judged."""
