"""Stored certificates, and conditions to select them by."""
