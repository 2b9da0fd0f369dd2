"""Experiments of the papers, run with many seeds; one file a paper. See ``__main__.py``."""
