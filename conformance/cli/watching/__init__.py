"""`watch`: layers of processes keep what did not change imported, and a fork of one of them answers each save."""
