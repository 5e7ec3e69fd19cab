"""Attacks on certifiers: how inputs are moved, what then is wrong, and the report."""
