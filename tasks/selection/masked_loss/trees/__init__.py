"""The exact masked loss of tree models; see `engine.py`, and `forest.py` for the normal form."""
