"""Formats of files, one a module, and the choice of one by the name of a file."""
