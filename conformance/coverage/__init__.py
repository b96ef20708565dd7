"""Coverage: which lines and branches of Inductor each case executes, and which cases an edit can change."""
