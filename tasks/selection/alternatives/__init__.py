"""Alternative feature sets: several diverse sets, each as good as it can be, and proven so.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3.
What a set is worth (`quality.py`) and how sets are searched for are chosen apart.
"""
