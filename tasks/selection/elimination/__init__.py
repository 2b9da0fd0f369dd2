"""Searches that mask features of a fitted model, one after another."""
