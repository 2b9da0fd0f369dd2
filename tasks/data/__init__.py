"""Roles and types of columns, checks and warnings, splits, and the matrix of features."""
