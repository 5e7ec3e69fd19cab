"""The tables of the paper with our numbers, as values and as text."""
