"""Comparison of methods with nested folds and several seeds.

====================  ====================================================================
`api`                 `chaffinch.compare`
`settings`            settings of a comparison
`plan`                cells, their keys, and the schema of the results
`cells`               a cell: selection inside an outer fold, scores outside it
`library_warnings`    warnings of libraries while cells are measured
`run`                 the whole comparison, resumable, and its files
`summary`             scores, differences, verdicts, ranks and stability from the results
`text`                sentences, and lines for a terminal
`report`              HTML report
====================  ====================================================================
"""
