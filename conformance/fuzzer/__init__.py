"""Makes programs out of the functions of cases, and keeps those that fail as findings."""
