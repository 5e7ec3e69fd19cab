"""What certificates are worth: metrics, costs, figures and the report."""
