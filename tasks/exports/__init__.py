"""Finished runs for other tools: one file for each tool; the command is in flows/cli/export.py."""
