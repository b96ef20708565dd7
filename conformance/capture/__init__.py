"""One isolated compile of a case, and its results. Only this package uses private parts of torch."""
