"""Differences between runs, the gate, and promotion."""
