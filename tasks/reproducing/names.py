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
    **{
        f"pefs-figure-1-{table}": f"test error and share of features on {table}, PEFS, mRMR, "
        "ReliefF and LASSO"
        for table in ("pcmac", "usps", "adult", "digits-and-noise")
    },
    **{
        f"dfs-figure-2-{table}": f"AUC on {what}, features by DFS, ANOVA F and mutual information"
        for table, what in {
            "mnist35": "mnist35",
            "gisette": "gisette",
            "pcmac": "pcmac",
            "basehock": "BASEHOCK",
            "madelon": "madelon",
            "colon": "colon",
            "made": "made tables",
        }.items()
    },
}
IN_WORDS = "; ".join(f"{name}: {title}" for name, title in TITLES.items())
