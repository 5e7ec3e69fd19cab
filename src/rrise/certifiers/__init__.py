"""Certifiers: anything that maps inputs, or their votes, to certificates. One file per method."""
