"""Differentiable feature selection: descend the estimated residual variance over relaxed masks.

Sheth and Fusi, "Differentiable feature selection by discrete relaxation", AISTATS 2020.
"""
