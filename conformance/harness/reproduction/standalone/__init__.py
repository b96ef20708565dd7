"""What a script `reproduce.py` does with its calls. The functions are copied into it, so they need torch alone.

calls.py makes a call, differences.py compares what two calls did, tolerance.py judges values, and main.py puts them
together.
"""
