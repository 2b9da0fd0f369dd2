"""Exact searches for alternative feature sets."""
