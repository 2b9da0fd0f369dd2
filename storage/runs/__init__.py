"""Runs in the store: their stages, checkpoints and promotions."""
