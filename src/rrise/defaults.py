"""Levels that the Python interface, recipes and command line share; free of imports."""

FAILURE = 0.01
"""The default failure: the allowed probability of issuing a wrong radius."""
CONFIDENCE = 0.95
"""The default confidence of the promises `pac` and `issued` over the calibration set."""
