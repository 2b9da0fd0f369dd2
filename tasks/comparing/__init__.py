"""A comparison of methods: nested folds, seeds, and what is made of them.

=================  ===============================================================
`settings`         what a person can set
`plan`             which cells there are, and what they need
`cells`            one cell: selection inside an outer fold, one score outside it
`story`            the whole comparison, resumable, and its files
=================  ===============================================================
"""
