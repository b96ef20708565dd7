"""What an author declares: cases, their axes, inputs, special values, and how a case is called."""
