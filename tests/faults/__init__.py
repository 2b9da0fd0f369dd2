"""Faults injected at random moments into real runs, and what becomes of the runs."""
