"""Selection: which of the collected cases a run takes, and what their declarations say."""
