"""The compiler: captures by this machine and its torch, without pytest and without a run, and their texts."""
