"""Comparison of methods with nested folds and several seeds."""
