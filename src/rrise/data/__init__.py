"""Datasets, splits and the checks that every input passes: arrays in, arrays out."""
