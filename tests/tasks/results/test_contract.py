"""What a contract asks of a source, what that saves, and which tables no longer fit it."""

import json
import sqlite3
from datetime import date, timedelta
from itertools import product

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings, StorageError
from chaffinch.storage.files import to_json
from chaffinch.tasks.results.model import SelectedModel
from chaffinch.tasks.results.previous_run import read_former, settings_of
from chaffinch.tasks.settings.reselection import ReselectionSettings
from tests.synthetic import good_table

LINEAR = ModelSettings(name="linear", tuning="none")
pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A result whose features are two columns of numbers and one of text."""
    keep = ("age", "colour", "income")
    store = tmp_path_factory.mktemp("store")
    result = chaffinch.select(
        good_table(), "churned", model=LINEAR, method="anova_f", n_features=3, keep=keep,
        store=store,
    )  # fmt: skip
    assert set(result.features) == set(keep)
    return result


def kept_alone(name, values):
    """Return a table with a column more, and the result of a run that keeps that alone."""
    table = good_table().assign(**{name: values})
    options = {"model": LINEAR, "method": "anova_f", "n_features": 1, "keep": [name]}
    return table, chaffinch.select(table, "churned", **options)


@pytest.fixture(scope="module")
def of_days():
    """A contract of features that are made of earlier rows."""
    random = np.random.default_rng(0)
    days = [date(2026, 1, 1) + timedelta(days=i) for i in range(300)]
    rows = pd.DataFrame({"noise": random.normal(size=300), "day": pd.to_datetime(days)})
    rows["shop"] = np.where(np.arange(300) % 2, "a", "b")
    rows["y"] = random.normal(size=300).cumsum()
    return chaffinch.select(
        rows, "y", model=LINEAR, method="anova_f", n_features=1, time="day",
        history={"lags": [1, 2], "series": "shop"}, drop=["shop"],
    ).contract  # fmt: skip


def test_the_columns_of_plain_features_are_these_in_the_tables_order(kept):
    in_order = [name for name in good_table().columns if name in kept.features]
    assert kept.contract.columns == in_order == kept.contract.features
    assert kept.contract["target"]["name"] == "churned"  # it is the whole file as well


def test_features_made_of_earlier_rows_ask_for_what_they_are_made_of(of_days):
    assert of_days.features == ["y_lag_1"]
    assert of_days.columns == ["y", "day", "shop"]


@pytest.fixture
def days():
    """Rows that the contract `of_days` fits."""
    times = [date(2026, 1, 1) + timedelta(days=i) for i in range(300)]
    y = np.random.default_rng(0).normal(size=300).cumsum()
    return pd.DataFrame({"y": y, "day": pd.to_datetime(times), "shop": ["a", "b"] * 150})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"y": "a"}, "column 'y' holds text, such as 'a', where the contract has numbers"),
        ({"y": True}, "column 'y' holds true and false, such as True, where the contract has num"),
        ({"y": 1e31}, "column 'y' must lie within"),
        ({"day": "abc"}, "time column 'day' holds text, which has no order in time"),
        ({"day": pd.NaT}, "time column 'day' is missing in all 300 rows"),
        ({"shop": "a", "day": 1}, "time column 'day' has the same value in rows 1 and 2"),
        ({"shop": None}, "series column 'shop' is missing in all 300 rows"),
    ],
)
def test_what_features_are_made_of_is_checked_as_they_are(of_days, days, change, said):
    of_days.validate(days)
    of_days.validate(days.assign(y=days["y"].astype(str)))
    with pytest.raises(InputError, match=f"^{said}"):
        of_days.validate(days.assign(**change))


def test_so_is_whether_their_times_have_a_zone(of_days, days):
    with pytest.warns(UserWarning, match="^column 'day' holds times with a zone, and had none"):
        of_days.validate(days.assign(day=days["day"].dt.tz_localize("UTC")))


def test_so_are_its_values_and_its_scale(of_days, days):
    with pytest.warns(UserWarning, match="column 'y' has no value in any row"):
        of_days.validate(days.assign(y=np.nan))
    for times in (1000, 0.001):
        with pytest.warns(UserWarning, match="column 'y' reaches to .* make sure that its unit"):
            of_days.validate(days.assign(y=days["y"] * times))


def test_where_no_feature_is_made_of_earlier_rows_neither_time_nor_series_is_asked_for():
    random = np.random.default_rng(1)
    rows = pd.DataFrame({"cause": random.normal(size=300), "day": np.arange(300)})
    rows["shop"] = np.where(np.arange(300) % 2, "a", "b")
    rows["y"] = 3 * rows["cause"] + 0.1 * random.normal(size=300)
    contract = chaffinch.select(
        rows, "y", model=LINEAR, method="anova_f", n_features=1, time="day",
        history={"lags": [1], "series": "shop"}, drop=["shop"],
    ).contract  # fmt: skip
    assert contract.features == contract.columns == ["cause"]
    contract.validate(rows[["cause"]])


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, polars.DataFrame, lambda table: pa.table(table.to_dict("list"))]
)
def test_the_table_it_was_made_from_fits_in_any_kind_of_table(kept, kind):
    table = good_table()
    kept.contract.validate(kind(table[kept.contract.columns]))


def test_so_does_one_in_a_file_and_one_without_rows_or_values(kept, tmp_path):
    table = good_table()
    table.to_csv(tmp_path / "newer.csv", index=False)
    kept.contract.validate(tmp_path / "newer.csv")
    kept.contract.validate(table.assign(age=np.arange(240) % 3))
    with pytest.warns(UserWarning, match="the table has no rows"):
        kept.contract.validate(table.head(0))
    with pytest.warns(UserWarning, match="'age' has no value in any row; make sure"):
        kept.contract.validate(table.assign(age=None))


@pytest.mark.parametrize("times", [1000, 0.001])
def test_a_column_in_another_unit_is_reported(kept, times):
    table = good_table()
    with pytest.warns(UserWarning, match="column 'income' reaches to .* make sure that its unit"):
        kept.contract.validate(table.assign(income=table["income"] * times))
    for seed in range(20):  # nor does another sample, or a common drift
        sample = table.sample(frac=1, replace=True, random_state=seed)
        kept.contract.validate(sample.assign(income=sample["income"] * 3))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda income: 0.0 * income, "is 0 in every row, and varied at the selection; make sure"),
        (lambda income: 0.0 * income + 1e6, r"is 1e\+06 in every row, and varied"),
        (lambda income: income.where(income.index % 5 == 0, 0), "is 0 in 80% of its values, and v"),
        (lambda income: income.where(income.index % 2 == 0, -999), "is -999 in 51% of its values"),
    ],
)
def test_a_number_that_is_the_same_or_0_in_most_rows_is_reported(kept, change, said):
    table = good_table()
    with pytest.warns(UserWarning, match=f"column 'income' {said}"):
        kept.contract.validate(table.assign(income=change(table["income"])))
    few = table.head(29)  # of which one value tells little
    kept.contract.validate(few.assign(income=change(few["income"])))


def test_a_number_that_was_nearly_always_0_is_reported_where_it_seldom_is():
    table, result = kept_alone("rare", np.where(np.arange(240) % 25 == 0, 1000.0, 0.0))
    assert result.contract["features"][0]["quantiles"] == [0, 0, 0]
    result.contract.validate(table)
    result.contract.validate(table.assign(rare=0))
    result.contract.validate(table.assign(rare=np.where(table.index % 12 == 0, 1000.0, 0.0)))
    with pytest.warns(UserWarning, match=r"column 'rare' reaches to 1e\+03 where it reached to 0 "):
        result.contract.validate(table.assign(rare=1000.0))


@pytest.mark.parametrize("column", ["income", "colour"])
def test_a_column_that_lost_most_of_its_values_is_reported(kept, column):
    table = good_table()

    def with_every(step, rows=table):
        return rows.assign(**{column: rows[column].where(rows.index % step == 0)})

    with pytest.warns(UserWarning, match=f"'{column}' has a value in .* and had in (98|100)% at"):
        kept.contract.validate(with_every(20))
    kept.contract.validate(with_every(8))
    kept.contract.validate(with_every(20, table.head(29)))  # of which one value tells little
    content = kept.contract.to_dict()
    for feature in content["features"]:
        del feature["missing"]
    of_an_earlier_writer = chaffinch.FeatureContract.parse(json.dumps(content).encode())
    of_an_earlier_writer.validate(with_every(20))


def test_categories_that_were_not_seen_are_reported(kept):
    table = good_table()
    some = table["colour"].where(table.index > 2, "ultraviolet")
    with pytest.warns(UserWarning, match=r"not seen .*'ultraviolet', in 3 of \d+ rows"):
        kept.contract.validate(table.assign(colour=some))


def test_whole_numbers_that_are_categories_may_all_be_new():
    table, result = kept_alone("shop", [f"{2**60 + i % 3}" for i in range(240)])
    with pytest.warns(UserWarning, match="'shop' holds categories that were not seen"):
        result.contract.validate(table.head(3).assign(shop=2**60 + 7))


def test_a_number_that_may_be_one_code_or_another_is_refused():
    table, result = kept_alone("code", ["00500", "500", "00700"] * 80)
    result.contract.validate(table.assign(code=700))
    said = "^column 'code' holds numbers, which cannot tell '00500' and '500' apart as in training;"
    for read in (result.contract.validate, result.model.predict):
        for number in (500, 500.0):
            with pytest.raises(InputError, match=said):
                read(table.assign(code=[700] * 3 + [number] * (len(table) - 3)))


def test_true_and_false_fit_where_they_were_and_so_do_0_and_1():
    table, result = kept_alone("is_new", np.arange(240) % 3 == 0)
    assert [feature["values"] for feature in result.contract["features"]] == ["boolean"]
    result.contract.validate(table)
    result.contract.validate(table.assign(is_new=table["is_new"].astype(int)))
    for other in (-1, 2, 0.5):
        with pytest.raises(InputError, match=f"numbers, such as {other}, .* true and false"):
            result.contract.validate(table.assign(is_new=table["is_new"] * other))
    content = {**result.contract.to_dict(), "features": [{"name": "is_new", "type": "number"}]}
    of_an_earlier_writer = chaffinch.FeatureContract.parse(json.dumps(content).encode())
    of_an_earlier_writer.validate(table)


@pytest.mark.parametrize("is_in_sqlite", [False, True])
def test_of_other_columns_no_value_is_read(kept, is_in_sqlite, tmp_path):
    table = good_table()
    table["note"] = pd.Series([1, *["a"] * (len(table) - 1)], dtype=object)
    wrong = table.assign(age=pd.Series([*table["age"][:-1], "old"], dtype=object))
    numbers = table.assign(colour=table["age"])
    if is_in_sqlite:
        with sqlite3.connect(tmp_path / "shop.db") as database:
            kinds = {"age": "REAL", "note": "BLOB"}  # these keep numbers beside text
            table.to_sql("fits", database, index=False, dtype=kinds)
            wrong.to_sql("wrong", database, index=False, dtype=kinds)
            numbers.to_sql("numbers", database, index=False, dtype=kinds)
        database.close()
        names = ("fits", "wrong", "numbers")
        table, wrong, numbers = (f"sqlite:///{tmp_path / 'shop.db'}#{name}" for name in names)
    kept.contract.validate(table)
    assert len(kept.model.predict(table)) == len(good_table())
    with pytest.raises(InputError, match="where the contract has text"):
        kept.contract.validate(numbers)
    where = "" if is_in_sqlite else f" in row {len(good_table())}"
    said = rf"column 'age' holds .*'old'{where}; .*the model learnt from numbers in 'age', so corr"
    for use in (kept.contract.validate, kept.model.predict):
        with pytest.raises(InputError, match=said):
            use(wrong)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.drop(columns=["age", "income"]),
         r"lacks 'age' and 'income', 2 of the 3 columns that the contract needs"),
        (lambda table: table.assign(age="old"),
         r"column 'age' holds text, such as 'old', where the contract has numbers"),
        (lambda table: table.assign(age=pd.Series(["7", "", "old"] * 80, dtype="category")),
         r"column 'age' holds text, such as 'old', where the contract has numbers"),
        (lambda table: table.assign(colour=np.arange(len(table)) / 2),
         r"column 'colour' holds double, such as 0.0, where the contract has text"),
        (lambda table: table.assign(age=table["age"] > 40),
         r"column 'age' holds true and false, such as (True|False), where the contract has num"),
        (lambda table: table.assign(age=[7.0, -1e31, *table["age"][2:]]),
         r"column 'age' must lie within -1e\+30\.\.1e\+30, .* but is -1e\+31 in row 2: rescale"),
        (lambda table: table.assign(age=[[1]] * len(table)),
         r"age.*the model learnt from numbers in 'age'"),
    ],
)  # fmt: skip
def test_a_column_that_is_missing_or_of_another_type_is_refused(kept, change, said):
    with pytest.raises(InputError, match=said):
        kept.contract.validate(change(good_table()))


def test_numbers_in_text_and_empty_text_are_read_as_in_the_selection(kept):
    table = good_table()
    table.loc[:5, ["age", "colour"]] = None
    told = table.assign(age=table["age"].map(str, na_action="ignore"))
    told.loc[:5, ["age", "colour"]] = ""
    kept.contract.validate(told)
    assert (kept.model.predict(told) == kept.model.predict(table)).all()


def test_it_is_read_from_a_run_its_folder_or_its_file(kept):
    path = kept.folder / "selection.json"
    for given in (kept, kept.folder, path, str(path)):
        assert chaffinch.load_contract(given) == kept.contract
    assert chaffinch.load_contract(kept.run, store=kept.folder.parents[1]) == kept.contract
    with pytest.raises(InputError, match="is no feature contract") as refusal:
        chaffinch.load_contract(kept.folder / "report.html")
    assert "remove" not in str(refusal.value)


def test_a_name_of_the_store_may_be_that_of_a_folder_here(kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = kept.folder.parents[1]
    chaffinch.promote(kept, name="orders", store=store)
    (tmp_path / "orders").mkdir()
    assert chaffinch.load_contract("orders", store=store) == kept.contract
    assert chaffinch.exports.to_dbt("orders", store=store).keys() == {
        "orders_features.sql", "orders_features.yml",
    }  # fmt: skip
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="folder other is no run"):
        chaffinch.load_contract("other", store=store)


def test_bytes_of_delimited_text_are_its_fields_and_come_to_the_whole_file(kept, tmp_path):
    good_table().to_csv(tmp_path / "plain.csv", index=False)
    good_table().to_csv(tmp_path / "packed.csv.gz", index=False)
    read = kept.contract.bytes_in(tmp_path / "plain.csv")
    good_table()[kept.features].to_csv(tmp_path / "kept.csv", index=False)
    assert (read.kept, read.all) == tuple(
        (tmp_path / name).stat().st_size for name in ("kept.csv", "plain.csv")
    )
    assert read.share_saved == pytest.approx(1 - read.kept / read.all)
    assert kept.contract.bytes_in(tmp_path / "packed.csv.gz") == read


def test_bytes_of_parquet_are_those_of_its_columns_over_all_files(kept, tmp_path):
    table = pa.Table.from_pandas(good_table()).append_column(
        "age.nested", pa.array([{"a": 1, "b": [2, 3]}] * len(good_table()))
    )
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=50)
    read = kept.contract.bytes_in(tmp_path)
    expected = {True: 0, False: 0}
    for name in ("a", "b"):
        metadata = pq.read_metadata(tmp_path / f"{name}.parquet")
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                is_kept = column.path_in_schema in kept.features
                expected[is_kept] += column.total_compressed_size
    assert (read.kept, read.all) == (expected[True], sum(expected.values()))


def test_bytes_of_a_table_in_memory_are_its_buffers_and_a_source_lacks_nothing(kept):
    table = pa.Table.from_pandas(good_table())
    assert kept.contract.bytes_in(table).all == table.nbytes
    with pytest.raises(InputError, match="the source lacks 'age'; name the one that"):
        kept.contract.bytes_in(table.drop_columns("age"))


def places(content, at=()):
    """Yield where each value of JSON content is, in the ends of a list and of what is alike."""
    yield at
    if isinstance(content, dict | list):
        is_alike = isinstance(content, list) or at[:1] in (("metrics",), ("versions",))
        keys = [*content] if isinstance(content, dict) else range(len(content))
        for key in keys[:: max(1, len(keys) - 1)] if is_alike else keys:
            yield from places(content[key], (*at, key))


def nested(depth):
    return "[" * depth + "]" * depth


def edited(content, at, written):
    """Return JSON with other words at a place."""
    content = copied = json.loads(json.dumps(content))
    mark = "what is written by hand"
    if not at:
        return written
    for key in at[:-1]:
        copied = copied[key]
    copied[at[-1]] = mark
    return json.dumps(content).replace(json.dumps(mark), written)


BY_HAND = ["null", "true", "-1", "1e400", '""', '"\\u001b[2J"', "[]", "{}", '{"a": 1}',
           nested(990), nested(100_000)]  # fmt: skip


def is_taken(use):
    """Return whether something is done; else it is refused in one line that is short and plain."""
    try:
        use()
    except (InputError, StorageError) as error:
        refusal = str(error)
    else:
        return True
    assert refusal.isprintable()
    assert len(refusal) <= 600
    return False


def test_the_target_has_a_type_and_classes_of_it_and_the_comparison_a_verdict(kept, tmp_path):
    path = tmp_path / "edited.json"
    comparison = {**kept.contract.to_dict()["comparison"]}
    del comparison["verdict"]
    of_text = {**kept.contract.to_dict()["target"], "type": "3"}
    for change, said in (
        ({"target": of_text}, "target.type: input should be 'integer'"),
        ({"target": {**of_text, "type": "integer"}}, "target: value err"),
        ({"comparison": comparison}, "comparison.verdict: field req"),
    ):
        path.write_text(json.dumps({**kept.contract.to_dict(), **change}))
        with pytest.raises(InputError, match=rf"no feature contract \({said}"):
            chaffinch.load_contract(path)
    contract = json.loads((kept.folder / "selection.json").read_text())
    del contract["target"]["type"]  # as in contracts from before it
    files = {"model.skops": (kept.folder / "model" / "model.skops").read_bytes()}
    earlier = chaffinch.FeatureContract.parse(json.dumps(contract).encode())
    labels = SelectedModel.from_contract(earlier, files).predict(good_table())
    assert set(labels) <= {"no", "yes"}


def test_a_contract_is_written_as_it_was_read_with_the_fields_of_a_later_writer(kept):
    content = (kept.folder / "selection.json").read_bytes()
    assert to_json(kept.contract.to_dict()) == content
    later = json.loads(content) | {"later": [1]}
    later["target"]["later"] = {"a": None}
    read = chaffinch.FeatureContract.parse(json.dumps(later).encode())
    assert read.to_dict() == later


def test_fields_are_attributes_and_plain_values_by_name(kept):
    assert kept.contract.comparison.verdict == kept.contract["comparison"]["verdict"]
    assert kept.contract.losses["test"].selected == kept.contract["losses"]["test"]["selected"]
    assert kept.contract["features"][0]["name"] == "age"
    assert dict(kept.contract) == kept.contract.to_dict()
    assert [*kept.contract] == [*kept.contract.to_dict()]
    assert [*kept.contract.items()] == [*kept.contract.to_dict().items()]
    assert json.loads(kept.contract.model_dump_json(exclude_unset=True)) == kept.contract.to_dict()
    assert "comparison" in kept.contract
    assert "kept" not in kept.contract
    assert kept.contract.get("kept", 1) == 1


@pytest.mark.filterwarnings("ignore:column .* (reaches|holds categories):UserWarning")
def test_whatever_is_edited_by_hand_is_taken_or_refused_in_one_line(kept, of_days, tmp_path):
    """What cannot be read is refused by one of the other doors as well, by each in its turn."""
    path, other = tmp_path / "edited.json", tmp_path / "other.json"
    table = pa.Table.from_pandas(good_table())
    doors = (
        lambda: chaffinch.load_contract(path).validate(table),
        lambda: settings_of(read_former(path, tmp_path), ReselectionSettings()),
        lambda: chaffinch.difference(path, other, store=tmp_path),
        lambda: chaffinch.difference(other, path, store=tmp_path),
    )
    of_rows, of_lags = kept.contract.to_dict(), of_days.to_dict()
    of_history = [at for at in places(of_lags) if at and at[0] in ("features", "settings")]
    for contract, edits in ((of_rows, places(of_rows)), (of_lags, of_history)):
        other.write_text(json.dumps(contract))
        for number, (at, written) in enumerate(product(edits, BY_HAND)):
            path.write_text(edited(contract, at, written))
            if is_taken(lambda: chaffinch.load_contract(path).columns):
                for door in doors:
                    is_taken(door)
            else:
                assert not is_taken(doors[number % len(doors)])
