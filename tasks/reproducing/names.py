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
}
IN_WORDS = "; ".join(f"{name}: {title}" for name, title in TITLES.items())
