"""How a user configures a run: pytest's options and ini options, and the conftests that pytest loads first."""
