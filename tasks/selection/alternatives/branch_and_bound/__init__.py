"""Exact search for one feature set, by branch and bound."""
