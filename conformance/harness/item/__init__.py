"""One item: what it runs, what each check finds, and the files of one that fails."""
