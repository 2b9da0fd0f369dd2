"""What papers published, beside what comes out when their runs are repeated over many seeds.

=======================  =====================================================================
file                     what it holds
=======================  =====================================================================
`experiment.py`          the words: a published figure, an experiment
`names.py`               their names, and what they show
`experiments.py`         which experiments there are, by name
`protocol.py`            how the authors of GBMO cut rows, tune, select and score
`gbmo_synthetic.py`      GBMO, Table 2
`gbmo_sonar.py`          GBMO, Tables 3 to 6, on sonar
`afs_bm_synthetic.py`    AFS-BM, Tables 2 and 3
`alternatives.py`        alternatives, Tables 3, 5, 6 and Figure 5
`pefs_protocol.py`       how the authors of PEFS cut rows, select and score
`pefs_figure_1.py`       PEFS, Figure 1, on pcmac, usps and adult
`pefs_digits.py`         the same on digits with columns of noise
`dfs_figure_2.py`        DFS, Figures 2 and 4, on its tables, on others and on made ones
`user_tables.py`         real tables, from a folder of the user's
`outcome.py`             published figures beside ours
=======================  =====================================================================

The protocols are the authors', lucky seeds and all; the searches are ours.
"""
