"""The stages of a run, and `run.py`, which chains them."""
