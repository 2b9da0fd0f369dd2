"""Splits of rows into parts and folds."""
