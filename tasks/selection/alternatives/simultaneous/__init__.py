"""Exact and heuristic search for several feature sets at once."""
