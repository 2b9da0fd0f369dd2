"""Finished runs for other tools: a file for each tool; the command is in flows/cli/export.py."""
