"""`cv=`: the folds of any splitter of scikit-learn, for the rows as they are given."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

import chaffinch
from chaffinch import FeatureSelector, InputError, ModelSettings
from chaffinch.storage.sources import source_of
from chaffinch.tasks.data.splitting.custom_folds import custom_folds
from chaffinch.tasks.data.splitting.splits import Roles, fold_indices
from chaffinch.tasks.pipeline.ingestion import ingest
from chaffinch.tasks.pipeline.selection_run import FOLDS_FILE
from chaffinch.tasks.settings.selection import SelectionSettings

pytestmark = pytest.mark.usefixtures("undrawn")
N = 120
LINEAR = ModelSettings(name="LinearRegression", tuning="none")


def table_of():
    """Rows with their number, groups that take turns, and a target of two features."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(N, 5)), columns=[*"abcde"]).assign(row=np.arange(N))
    y = 2 * table["a"] + table["b"] + random.normal(size=N)
    return table.assign(group=np.arange(N) % 6, y=y, yes=y > 0)


def select(data=None, target="y", *, drop=("row", "group", "yes"), **options):
    return chaffinch.select(
        table_of() if data is None else data,
        target,
        **{"model": LINEAR, "drop": [name for name in drop if name != target], **options},
    )


def folds_in_source(cv, table, folder, **columns):
    """Return the folds as row numbers, by the column that has these."""
    settings = SelectionSettings(target=columns.pop("target", "y"), method="rfecv", columns=columns)
    dataset = ingest(source_of(table), settings, folder)
    number = dataset.read(["row"])["row"].to_numpy()
    codes = custom_folds(cv, dataset, settings).codes
    return [tuple(sorted(number[of_fold == code].tolist()) for code in (1, 2)) for of_fold in codes]


def as_lists(pairs):
    return [tuple(sorted(map(int, rows)) for rows in pair) for pair in pairs]


@pytest.mark.parametrize(
    ("cv", "columns"),
    [
        (KFold(4), {}),
        (StratifiedKFold(3, shuffle=True, random_state=0), {"target": "yes"}),
        (GroupKFold(3), {"group": "group"}),
        (LeaveOneGroupOut(), {"group": "group"}),
        (TimeSeriesSplit(4, gap=2, max_train_size=30), {}),
        (TimeSeriesSplit(4), {"time": "row"}),
        (ShuffleSplit(3, random_state=0), {}),
        (PredefinedSplit(np.arange(N) % 4 - 1), {}),
    ],
    ids=lambda given: type(given).__name__ if hasattr(given, "split") else "",
)
def test_the_folds_are_those_of_the_splitter_for_the_rows_in_their_order(cv, columns, tmp_path):
    table, y = table_of(), table_of()[columns.get("target", "y")]
    expected = as_lists(cv.split(table, y, table["group"] if "group" in columns else None))
    assert folds_in_source(cv, table, tmp_path, **columns) == expected
    assert folds_in_source(expected, table, tmp_path, **columns) == expected


def test_numbers_of_rows_count_rows_without_a_target_which_a_splitter_does_not_see(tmp_path):
    table, cv = table_of(), KFold(3)
    table.loc[[0, 7, 50], "y"] = np.nan
    left_out = {"drop_rows_without_target": True}
    kept = table["row"][table["y"].notna()].to_numpy()
    by_splitter = as_lists((kept[fit], kept[held]) for fit, held in cv.split(kept))
    assert folds_in_source(cv, table, tmp_path, **left_out) == by_splitter
    pairs = [*cv.split(table)]
    by_number = as_lists(
        (np.intersect1d(kept, fit), np.intersect1d(kept, held)) for fit, held in pairs
    )
    assert folds_in_source(pairs, table, tmp_path, **left_out) == by_number


@pytest.mark.parametrize("method", ["auto", "rfecv"])
def test_the_folds_of_the_settings_given_as_rows_find_the_same(method, tmp_path):
    by_number = select(method=method, cv=4, store=tmp_path)
    assert by_number.settings["model"]["folds"] == 4
    assert (
        by_number.contract
        == select(method=method, model=LINEAR.model_copy(update={"folds": 4})).contract
    )
    settings = SelectionSettings(**by_number.settings)
    dataset = ingest(source_of(table_of()), settings, tmp_path / "datasets")
    part = pd.read_parquet(by_number.folder / "splits.parquet")["part"]
    row = dataset.rows_in_source()
    y = dataset.read(["y"])["y"].to_numpy()
    train = np.flatnonzero(part == "train")
    pairs = [
        (row[train[fit]], row[train[held]]) for fit, held in fold_indices(Roles(y[train]), settings)
    ]
    found = select(method=method, cv=pairs)
    assert (found.features, found.losses) == (by_number.features, by_number.losses)
    assert found.path.equals(by_number.path)
    assert found.contract["notes"] == ["the folds are given, by 4 pairs of rows"]


def test_the_order_of_rows_changes_nothing_where_the_splitter_does_not_go_by_it():
    table = table_of()
    found = select(table, cv=LeaveOneGroupOut(), group="group", drop=("row", "yes"))
    assert found.contract["notes"] == ["the folds are given, by LeaveOneGroupOut()"]
    assert found.settings["model"]["folds"] == 6
    shuffled = table.sample(frac=1, random_state=0)
    again = select(shuffled, cv=LeaveOneGroupOut(), group="group", drop=("row", "yes"))
    assert again.contract == found.contract


def test_folds_are_of_the_rows_of_a_part_where_a_method_has_parts():
    found = select(method="gbmo", model="lightgbm", cv=KFold(3, shuffle=True, random_state=0))
    assert found.settings["model"]["folds"] == 3


def test_a_stopped_run_goes_on_and_its_folds_are_kept(tmp_path):
    def stop(stage, done, total):
        if stage == "choose_mask":
            raise KeyboardInterrupt

    options = {"cv": KFold(4, shuffle=True, random_state=3), "store": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        select(**options, verbose=stop)
    (folder,) = (tmp_path / "runs").glob("[!.]*")
    search = (folder / "elimination.parquet").stat().st_mtime_ns
    found = select(**options)
    assert found.folder == folder
    assert (folder / "elimination.parquet").stat().st_mtime_ns == search
    assert found.contract == select(cv=options["cv"]).contract
    held_out = np.array(pq.read_table(folder / FOLDS_FILE).columns) == 2
    fold = pd.read_parquet(folder / "out_of_fold.parquet").set_index("row")["fold"].sort_index()
    assert (held_out.argmax(axis=0) == fold).all()
    two = found.at(2)
    assert pq.read_table(two.folder / FOLDS_FILE).equals(pq.read_table(folder / FOLDS_FILE))
    assert two.contract["notes"] == found.contract["notes"]
    assert select(cv=KFold(4, shuffle=True, random_state=4), store=tmp_path).run != found.run


def test_the_selector_folds_as_select_does():
    table = table_of()
    X, y, options = table[[*"abcde"]], table["y"], {"model": LINEAR, "cv": KFold(4)}
    selector = FeatureSelector(**options).fit(X, y)
    assert selector.result_.contract == chaffinch.select(X, y, **options).contract
    weight = np.where(np.arange(N) % 5, 1.0, 0.0)
    left = np.flatnonzero(weight)
    weighted = FeatureSelector(**options).fit(X, y, sample_weight=weight)
    fewer = FeatureSelector(**options).fit(X.iloc[left], y[left], sample_weight=weight[left])
    assert weighted.result_.contract == fewer.result_.contract
    with pytest.raises(InputError, match="cv has numbers of rows but rows of weight 0 are left"):
        FeatureSelector(model=LINEAR, cv=[*KFold(4).split(X)]).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cv": "kfold"}, "cv must be a number of folds, a splitter of scikit-learn such as"),
        ({"cv": True}, "cv must be a number of folds"),
        ({"cv": 1}, "folds must be at least 2 but is 1"),
        ({"cv": 4, "model": ModelSettings(folds=3)}, "cv is 4, but folds is 3 in the settings"),
        ({"cv": KFold(2)}, "method auto takes 3 to 20 folds but cv makes 2; use a splitter"),
        ({"cv": LeaveOneOut()}, "method auto takes 3 to 20 folds but cv makes 120"),
        ({"cv": RepeatedKFold(n_splits=3, n_repeats=2)}, "those of cv overlap; use a splitter"),
        ({"cv": [([0, 1], [2]), ([3, 4], [5]), ([6], [7])]}, "auto needs a fold that is fitted"),
        ({"cv": KFold(3), "method": "gbmo"}, "method gbmo makes none, and the model is not tuned"),
        ({"cv": KFold(4), "group": "group"}, "fold 1 of cv tears groups of 'group'"),
        ({"cv": KFold(4), "time": "row"}, "fold 1 of cv is fitted on rows that are not early"),
        ({"cv": StratifiedKFold(4)}, "StratifiedKFold makes no folds: Supported"),
        ({"cv": KFold(4), "data": table_of().replace({"y": {table_of()["y"][3]: np.nan}})},
         "missing in 1 of 120 rows, first in row 4: fill .*--drop-rows-without-target"),
        ({"cv": GroupKFold(4)}, "GroupKFold needs groups; name their column: "),
        ({"cv": [1, 2, 3]}, r"fold 1 of cv must be a pair \(train, test\) of row numbers but is 1"),
        ({"cv": [([0, 1], [1])] * 3}, "fold 1 of cv is fitted on a row that it holds out"),
        ({"cv": [([0, 1], [])] * 3}, "test of fold 1 of cv must be a list of row numbers"),
        ({"cv": [([0, 1], [N])] * 3}, f"test of fold 1 of cv has row {N} but there are {N} rows"),
        ({"cv": TimeSeriesSplit(5), "data": table_of().sort_values("yes"), "target": "yes"},
         "fold 1 of 5 would be fitted on one class only; give other folds than TimeSeriesSplit"),
    ],
)  # fmt: skip
def test_folds_that_cannot_be_used_are_refused_in_a_line(options, said):
    roles = {options.get(role) for role in ("group", "time")}
    drop = [name for name in ("row", "group", "yes") if name not in roles]
    model = {} if options.get("target") != "yes" else {"model": ModelSettings(tuning="none")}
    with pytest.raises(InputError, match=said) as error:
        select(drop=drop, **model, **options)
    assert "\n" not in str(error.value)
