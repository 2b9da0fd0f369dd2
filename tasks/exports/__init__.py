"""Finished runs for other tools: one file for each tool, and `TARGETS` in targets.py."""
