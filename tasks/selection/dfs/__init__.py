"""Differentiable feature selection: descend the estimated residual variance over relaxed masks.

Sheth and Fusi, "Differentiable feature selection by discrete relaxation", AISTATS 2020; the
estimate is that of Kong and Valiant, "Estimating learnability in the sublinear data regime", arXiv
1805.01626.

===========================  ====================================================
paper                        here
===========================  ====================================================
eq 1, f(s)                   `residual_variance.residual_variance`
proposition 2.1, lemma 2.1   `kernels.dense_sweeps`, `sparse_kernels.sparse_sweeps`
a_i                          `estimate.COEFFICIENTS`
s = sigma(2 v), penalty      `descent.Descent`
section 4, Adam              `kernels.adam_step`
search for a size             `search.select_by_descent`
a ranking for all sizes      `search.dfs`
===========================  ====================================================

Deviations. Columns are standardised, not just centred. Sparse tables are centred exactly without
becoming dense, which the paper names as its main limitation. Rows are shuffled again for every
round: with few rows their order causes most of the variance. A step takes at least 1,000 rows; of
smaller batches the mean over as many, as the paper accumulates gradients. For a number of features
the penalty goes over a grid, 15 steps each and rising, until no more are left; the descent at a
penalty begins where the last one ended, with fresh means of Adam, where the paper begins anew. At a
fixed penalty a descent ends after 1,000 steps, or when the mean loss of 50 steps is not below that
of the 50 before by 1e-5, in place of two steps, as losses are of other rows each. The target is in
units of its spread. With more than two classes each is an output against the rest, and the
estimates are summed. With newer rows, columns that have left may come back, and earlier rows may
count less (`decay`).

For an uncorrelated column, the relaxed estimate has a maximum below s = 1 from order 3 on, since
the polynomial ripples: so the order of columns that all stay says little, and orders above 4 pay
off only with correlated columns and many rows.
"""
