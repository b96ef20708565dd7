"""A GPU that is not there: the pretended device, and the patches that answer for it."""
