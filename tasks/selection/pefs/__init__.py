"""PEFS: a network and the probability of each of its features, trained at the same time.

Saito, Shirakawa and Akimoto, "Embedded Feature Selection Using Probabilistic Model-Based
Optimization", GECCO '18 Companion (2018).

==========================================  ==================================================
paper                                       here
==========================================  ==================================================
p(M | theta), section 2                     `distribution.sample`
gradient of W, eq 4                         `network.Training.train`: the mean over all masks
utilities of ranks, eq 5                    `distribution.utilities`
theta, eq 6                                 `distribution.moved`
joint training                              `search.Search`
deterministic and averaged prediction       `results.SharedNetwork`
network, Adam, batches, section 3.1         `network.Training`, `search.Rules`
any other network                           `custom_module.ModuleTraining`, `checked`
==========================================  ==================================================

lambda is 2: what looks like a power of it in section 3.1 is the mark of a footnote. At lambda = 2
a feature's probability rises by theta (1 - theta) (2 w - 1 - epsilon) on the mean, where w is how
often the mask of two that has it wins: what is kept wins by more than epsilon.

Deviations: searches end when they have settled (`results.is_settled`), at most after 60 sweeps of d
iterations, instead of 100,000 iterations for any d. With fewer than 128 features a sweep is
128 iterations and a step 1/128: the distribution would otherwise settle before the network has
learned. With two features the margin is 1/3. The loss of a mask has its own batch statistics, and
equal losses share their utilities. Weight decay applies to weights only. Masked features and
missing values are set to the baseline. The penalty can be steered to a number of features, which
the paper does not do; features that are the same in all rows take no part.
"""
