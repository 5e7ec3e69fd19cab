"""What a service does after an alarm of its monitor."""

WARN, ABSTAIN, MONTE_CARLO = "warn", "abstain", "monte-carlo"
"""Certify all the same and say so, abstain, or certify by Monte Carlo."""
POLICIES = (WARN, ABSTAIN, MONTE_CARLO)
