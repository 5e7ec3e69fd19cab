"""Classifiers as modules: built by name, fingerprinted, split at the head, saved without pickle."""
