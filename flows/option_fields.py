"""Which options each command has: option -> the field of the settings behind it."""

SELECTION = {
    "--target": "target",
    "--model": "model.name",
    "--keep": "columns.keep",
    "--drop": "columns.drop",
    "--categorical": "columns.categorical",
    "--numeric": "columns.numeric",
    "--weight": "columns.weight",
    "--group": "columns.group",
    "--time": "columns.time",
    "--task": "task",
    "--loss": "loss",
    "--baseline": "baseline",
    "--tuning": "model.tuning",
    "--folds": "model.folds",
    "--seed": "seed",
    "--shares": "shares",
    "--lags": "history.lags",
    "--rolling": "history.rolling",
    "--history-columns": "history.columns",
    "--series": "history.series",
    "--scale": "history.scale",
    "--alternatives": "alternatives.number",
    "--tau": "alternatives.tau",
    "--quality": "alternatives.quality",
    "--search": "alternatives.search",
    "--aggregate": "alternatives.aggregate",
    "--alternatives-time-limit": "alternatives.time_limit",
}
COMPARISON = {
    "--target": "target",
    "--methods": "methods",
    "--models": "models",
    "--folds": "folds",
    "--seeds": "seeds",
    "--sizes": "sizes",
    **{option: SELECTION[option] for option in SELECTION if "columns." in SELECTION[option]},
    **{option: SELECTION[option] for option in ("--task", "--loss", "--baseline")},
}
RESELECTION = {
    f"--{name}": name for name in ("target", "drop", "model", "gain", "slack", "rejections", "seed")
}
SHUFFLE = {
    "--target": "target",
    "--drop": "drop",
    "--sparse": "sparse",
    "--zero-based/--one-based": "zero_based",
    "--n-columns": "n_columns",
    "--dtype": "dtype",
    "--seed": "seed",
    "--block-rows": "block_rows",
}
DESCENT = {
    "--n-features": "n_features",
    "--penalty": "penalty",
    "--order": "order",
    "--steps": "steps",
    "--batch-rows": "batch_rows",
    "--blocks-per-step": "blocks_per_step",
    "--task": "task",
    "--seed": "seed",
}
STORE = {"--store": "store"}
WORKERS = {"--cluster": "cluster", "--workers": "workers"}
EXECUTION = {**STORE, **WORKERS}
STRICT = {**EXECUTION, "--strict": "strict"}
LIMITS = {
    f"--{name.replace('_', '-')}": name
    for name in ("retries", "retry_delay", "timeout", "stage_timeout")
}
