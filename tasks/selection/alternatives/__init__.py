"""Alternative feature sets: several diverse sets, each of the highest quality, with proofs.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3.
The quality of a set (`quality.py`) and the search for sets are chosen separately.
"""
