"""Coverage: which lines of Inductor each case executes when it is captured, and which cases an edit can change."""
