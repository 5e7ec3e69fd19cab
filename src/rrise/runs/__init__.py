"""Runs: a folder in which each step reads the results of earlier steps, and runs once."""
