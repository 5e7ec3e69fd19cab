"""Classifiers as modules: built by name, fingerprinted, opened at the head, saved without pickle."""
