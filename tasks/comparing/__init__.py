"""A comparison of methods: nested folds, seeds, and what is made of them.

Measured:

=====================  ================================================================
`settings`             what a person can set
`plan`                 which cells there are, and what they depend on
`cells`                one cell: selection inside an outer fold, one score outside it
`hearing`              what libraries warn of meanwhile
`estimate`, `trial`    how much there is to do, and what it takes
`results`              everything that was measured, as one table
`story`                the whole comparison, resumable, and its files
=====================  ================================================================

Concluded, from the results alone:

=====================  ================================================================
`planned`              what was meant to be measured
`scores`               the results as arrays, for a table and a model
`statistics`           paired differences, corrected for shared rows and many methods
`rank_statistics`      Friedman's test and Nemenyi's critical difference
`stability`            how much the sets of a method have in common
`outcomes`, `ranking`  what each method came to; put together by `summary`
`report`, `lines`      the page, and the lines of a terminal; `gaps` has what is missing
=====================  ================================================================
"""
