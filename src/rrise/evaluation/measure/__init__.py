"""Numbers of certificates: outcomes of every method, metrics, costs, evidence per input."""
