"""What authors demand or excuse: requirements, missed optimisations, known failures, known bugs."""
