"""Defaults that the Python interface, recipes and command line share; free of imports."""

FAILURE = 0.01
"""The default failure: the allowed probability of issuing a wrong radius."""
CONFIDENCE = 0.95
"""The default confidence of the promises `pac` and `issued` over the calibration set."""
DOUBT = 0.001
"""The allowed probability of calling a right bound wrong, for each certificate that fresh votes judge."""
SCORE = "tapered"
"""The default calibration score."""
