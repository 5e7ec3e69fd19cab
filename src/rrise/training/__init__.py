"""Training of the base classifier and of the surrogate, on one loop."""
