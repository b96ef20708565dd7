"""Which process runs which item, and when: durations, batches, workers, GPUs, and the progress of a run."""
