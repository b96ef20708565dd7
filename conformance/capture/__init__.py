"""One isolated compile, and all that came of it. Only this package touches private parts of torch."""
