"""Gates: products with a sigmoid, as operators of our own."""
