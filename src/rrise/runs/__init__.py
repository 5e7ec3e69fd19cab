"""Runs: a folder in which each step reads what the steps before it wrote, and is done once."""
