"""Arguments that hold several tensors: collections of inputs, and modules."""
