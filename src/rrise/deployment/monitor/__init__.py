"""The monitor: tests of exchangeability, audits, and recalibration from them."""
