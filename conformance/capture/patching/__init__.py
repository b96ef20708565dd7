"""What a patch of torch is, and whether it still fits the installed torch."""
