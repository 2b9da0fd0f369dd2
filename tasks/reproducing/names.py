"""Which published experiments can be run again: their names and what they show."""

TITLES = {
    "gbmo-table-2": "features found where ten of a hundred make the target (eq 22), LightGBM",
    "gbmo-tables-3-5-sonar": "test log loss and number of features on sonar, a network",
    "gbmo-tables-4-6-sonar": "test log loss and number of features on sonar, LightGBM",
    "afs-bm-tables-2-3-lightgbm": "features found and test loss where ten of a hundred make the "
    "target (eq 24), LightGBM",
    "afs-bm-tables-2-3-xgboost": "features found and test loss where ten of a hundred make the "
    "target (eq 24), XGBoost",
    "alternatives-tables-3-5-6": "what is proven of alternative feature sets, and in what time",
    "alternatives-figure-5": "what alternative feature sets cost in quality, by number and tau",
    "pefs-figure-1-pcmac": "test error against features kept by PEFS, mRMR, ReliefF and LASSO",
    "pefs-figure-1-usps": "the same on handwritten digits",
    "pefs-figure-1-adult": "the same on incomes",
    "dfs-figure-2-mnist35": "AUC on features chosen by DFS of orders 1, 4 and 6, by ANOVA F and by "
    "mutual information",
    "dfs-figure-2-gisette": "the same on another table of the paper",
    "dfs-figure-2-pcmac": "the same on text",
    "dfs-figure-2-basehock": "the same on other text",
    "dfs-figure-2-madelon": "the same on a made table of five features and their kin",
    "dfs-figure-2-made": "the same on made tables: columns that go together, digits with noise",
}
IN_WORDS = "; ".join(f"{name}: {title}" for name, title in TITLES.items())
