"""The wrapper modules that Inductor generates: recorded, loaded later, or not loaded at all."""
