"""``make run``: the main job on the Wisconsin breast-cancer table that scikit-learn bundles."""

import sys
from pathlib import Path

from chaffinch.flows.cli.main import main
from chaffinch.tasks.settings.selection import ExecutionSettings


def write_table(folder: Path) -> Path:
    """Write the table, 569 rows of 30 features and the diagnosis, as CSV; return its path."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer(as_frame=True)
    table = bunch.frame.assign(diagnosis=bunch.target_names[bunch.target]).drop(columns="target")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "breast_cancer.csv"
    table.to_csv(path, index=False)
    return path


if __name__ == "__main__":
    path = write_table(ExecutionSettings().store / "demonstration")
    sys.argv = ["chaffinch", "run", str(path), "--target", "diagnosis", "--prefect"]
    sys.argv += ["--tolerance", "0.05"]  # what 569 rows can show
    main()
