"""Rivals of mask optimisation: rank all features once, or refit the model as they search.

They are what people use today, here under the same splits, refits and verdict as every method.

======================  ==================================  =========================
ranking                 what it looks at                    here
======================  ==================================  =========================
``correlation``         training rows                       `filters.correlation`
``anova_f``             training rows                       `filters.anova_f`
``mutual_information``  training rows                       `filters.mutual_information`
``mrmr``                training rows                       `mrmr.mrmr`
``relieff``             training rows                       `relieff.relieff`
``fcbf``                training rows                       `fcbf.fcbf`
``lasso``               training rows                       `penalised.lasso`
``elastic_net``         training rows                       `penalised.elastic_net`
``select_from_model``   the base model                      `importances.select_from_model`
``permutation``         base model, mask-validation rows    `importances.permutation`
``tree_shap``           base model, mask-validation rows    `shap.tree_shap`
``mission``             training rows                       `mission.mission_scores`
``dfs``                 training rows                       `..dfs.ranking.dfs`
======================  ==================================  =========================

Each gives a score per feature, shape (d,), higher is better. `ranking.RankedPath` is the order in
which features leave; of equal scores the lowest index leaves first, as everywhere.

Those that refit know neither models nor rows: they ask for the losses, or the importances, of a
model fitted on the features of a mask.

=======================  ============================================  ==================
search                   here                                          finds
=======================  ============================================  ==================
``rfe``                  `elimination_by_refits.eliminate_by_refits`   `RankedPath`
``rfecv``                the same, once more for each fold             `CrossValidatedPath`
``sequential_backward``  `sequential.sequential_backward`              `EliminationPath`
``sequential_forward``   `sequential.sequential_forward`               `FoundMasks`
``particle_swarm``       `swarm.particle_swarm`                        `FoundMasks`
=======================  ============================================  ==================
"""
