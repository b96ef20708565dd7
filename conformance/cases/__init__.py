"""What an author declares: cases, axes, inputs, special values, and how a case is called. And how cases are found."""
