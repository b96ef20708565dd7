"""Rules that remove what varies without meaning from generated code."""
