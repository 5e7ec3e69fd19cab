"""The report page and the evaluation folder."""
