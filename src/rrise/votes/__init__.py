"""Noise votes: how often the base classifier answers each class under Gaussian noise."""
