"""GPUs that are not on this machine: the pretended device, and the patches that answer for it."""
