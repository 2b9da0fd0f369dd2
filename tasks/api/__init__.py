"""Functions for callers in Python."""
