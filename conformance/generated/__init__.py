"""The generator as a library: `generate` returns what torch.compile makes of a function for a device."""
