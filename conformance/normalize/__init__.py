"""Turns generated code into the text of a snapshot: removes what varies between runs and machines without meaning."""
