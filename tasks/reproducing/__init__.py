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
`user_tables.py`         real tables, from a folder of the user's
`outcome.py`             published figures beside ours
=======================  =====================================================================

The protocols are the authors', lucky seeds and all; the searches are ours.
"""
