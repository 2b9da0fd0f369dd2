"""`chaffinch.probabilistic_selection`: one search of a table at hand, and its checkpoint."""

import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from safetensors.numpy import save

import chaffinch
from chaffinch import InputError
from chaffinch.tasks.selection.pefs.network import Training
from chaffinch.tasks.selection.pefs.search import Search
from tests.tasks.snapshots import check_sentence

QUICK = {"hidden_layer_sizes": (16,), "batch_size": 64}


def table(n=500, d=8, seed=0):
    random = np.random.default_rng(seed)
    X = pd.DataFrame(random.normal(size=(n, d)), columns=list("abcdefghijkl")[:d])
    return X, np.where(2 * X["a"] - 2 * X["d"] + 0.3 * random.normal(size=n) > 0, "yes", "no")


def found(X=None, y=None, **options):
    if X is None:
        X, y = table()
    return chaffinch.probabilistic_selection(X, y, **{**QUICK, "most_sweeps": 6, **options})


def test_it_finds_what_matters_and_says_how_probable_each_feature_is():
    one = found(n_features=2)
    assert one.features == ("a", "d")
    assert one.mask.tolist() == [True, False, False, True] + [False] * 4
    assert min(one.probabilities[[0, 3]]) > max(one.probabilities[[1, 2, 4, 5, 6, 7]])
    trajectory = one.trajectory
    assert list(trajectory.columns) == [
        "iteration", "loss", "penalty", "entropy", "stability", "n_features",
    ]  # fmt: skip
    assert trajectory["iteration"].tolist() == [128 * (n + 1) for n in range(len(trajectory))]
    assert trajectory["entropy"].iloc[-1] < trajectory["entropy"].iloc[0]
    assert one.imputed == ()


def test_it_predicts_under_its_mask_and_on_the_mean_of_masks_drawn():
    X, _ = table()
    one = found(n_features=2)
    fresh, truth = table(seed=9)
    predicted = one.predict(fresh)
    assert predicted.shape == (500, 2)
    assert np.mean(np.array(["no", "yes"])[predicted.argmax(axis=1)] == truth) > 0.9
    changed = fresh.assign(b=50.0)
    assert (one.predict(changed) == predicted).all()
    averaged = one.predict_averaged(fresh, 4)
    assert averaged.shape == predicted.shape
    assert np.allclose(averaged.sum(axis=1), 1)
    values = found(X, X["a"].to_numpy() * 100 + 7, n_features=1, most_sweeps=12)
    assert values.features == ("a",)
    assert np.corrcoef(values.predict(fresh), fresh["a"])[0, 1] > 0.95


def test_missing_values_are_taken_for_the_baseline_and_it_says_whose():
    X, y = table()
    X.loc[:40, "c"] = np.nan
    one = found(X, y, n_features=2)
    assert one.imputed == ("c",)
    filled = found(X.fillna({"c": X["c"].mean()}), y, n_features=2)
    assert one.features == filled.features
    assert one.predict(X) == pytest.approx(one.predict(X.fillna({"c": X["c"].mean()})))


def test_alternatives_are_far_from_the_given_sets_by_names_or_positions():
    X, y = table()
    X = X.assign(e=X["a"] + 0.3 * X["e"])
    for previous in ([("a", "d")], [[0, 3]]):
        other = found(X, y, n_features=2, previous=previous, tau=0.5, penalty=None)
        assert len(other.features) == 2
        assert len(set(other.features) & {"a", "d"}) <= 1
    free = found(X, y, penalty=0.1, previous=[("a", "d"), ("e", "b")], tau=1)
    assert not {"a", "d", "e", "b"} & set(free.features)
    assert free.features


# The checkpoint


def same(one, other):
    assert one.features == other.features
    assert (one.probabilities == other.probabilities).all()
    pd.testing.assert_frame_equal(one.trajectory, other.trajectory)


class StoppedError(Exception):
    """What stops a search in the middle."""


def test_a_search_goes_on_from_its_checkpoint_as_if_it_had_never_been_stopped(
    tmp_path, monkeypatch
):
    path, whole = tmp_path / "search.safetensors", found(n_features=2)
    from chaffinch.tasks.api import probabilistic_selection as module

    written = []

    def stopping(file, content):
        write(file, content)
        if file == path:  # and not the trial next to it
            written.append(content)
            if len(written) == 3:
                raise StoppedError

    write = module.write_file
    monkeypatch.setattr(module, "write_file", stopping)
    with pytest.raises(StoppedError):
        found(n_features=2, checkpoint=path)
    same(found(n_features=2, checkpoint=path), whole)
    assert len(written) == len(whole.sweeps)
    same(found(n_features=2, checkpoint=path), whole)  # it is done, and nothing is left to do
    assert len(written) == len(whole.sweeps)
    X, _ = table()
    assert (found(n_features=2, checkpoint=path).predict(X) == whole.predict(X)).all()


@pytest.mark.e2e
def test_a_search_that_was_killed_goes_on(tmp_path):
    path = tmp_path / "search.safetensors"
    script = (
        "from tests.tasks.api.test_probabilistic_selection import found\n"
        f"found(penalty=0.01, most_sweeps=500, samples=8, checkpoint={str(path)!r})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[3])
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.exists()
    options = {"penalty": 0.01, "most_sweeps": 500, "samples": 8}
    same(found(**options, checkpoint=path), found(**options))


@pytest.mark.parametrize("asked", [{"penalty": 0.01}, {"n_features": 2}], ids=str)
def test_a_search_that_ended_goes_on_if_it_may_make_more_sweeps(asked, tmp_path):
    path = tmp_path / "search.safetensors"
    short = found(**asked, most_sweeps=2, checkpoint=path)
    assert len(short.sweeps) == 2
    whole, (X, _) = found(**asked, most_sweeps=4), table()
    longer = found(**asked, most_sweeps=4, checkpoint=path)
    assert len(whole.sweeps) == 4
    same(longer, whole)
    assert (longer.predict(X) == whole.predict(X)).all()
    with pytest.raises(InputError, match=r"most_sweeps must be at least 4, .* but is 3; ask"):
        found(**asked, most_sweeps=3, checkpoint=path)


def test_a_search_that_settled_stays_where_it_is_however_many_sweeps_it_may_make(tmp_path):
    path = tmp_path / "search.safetensors"
    settled = found(penalty=0.3, most_sweeps=60, checkpoint=path)
    assert len(settled.sweeps) < 60
    content = path.read_bytes()
    same(found(penalty=0.3, most_sweeps=61, checkpoint=path), settled)
    same(found(penalty=0.3, most_sweeps=len(settled.sweeps), checkpoint=path), settled)
    assert path.read_bytes() == content


def test_a_checkpoint_of_another_search_is_refused(tmp_path):
    path = tmp_path / "search.safetensors"
    found(penalty=0.1, most_sweeps=1, checkpoint=path)
    with pytest.raises(InputError, match=r"settings or seed, or .*; give those again"):
        found(penalty=0.1, most_sweeps=1, seed=1, checkpoint=path)
    with pytest.raises(InputError, match="of other rows, settings or seed"):
        found(*table(seed=3), penalty=0.1, most_sweeps=1, checkpoint=path)
    with pytest.raises(InputError, match="has 8 inputs but the table gives 10; name another file"):
        found(*table(d=10), penalty=0.1, most_sweeps=1, checkpoint=path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=r"search\.safetensors: the checkpoint cannot be read"):
        found(penalty=0.1, most_sweeps=1, checkpoint=path)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match=r"search\.safetensors: the checkpoint is damaged .*; rem"):
        found(penalty=0.1, most_sweeps=1, checkpoint=path)
    path.write_bytes(save({"a": np.zeros(3)}))
    with pytest.raises(InputError, match="the checkpoint is not of a search by pefs; name another"):
        found(penalty=0.1, most_sweeps=1, checkpoint=path)
    assert [one.name for one in tmp_path.iterdir()] == ["search.safetensors"]


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2\n", b"a,b\n" * 9_999, b"\x08" + bytes(7) + b"[1,2,3]"]
)
def test_a_file_that_is_no_checkpoint_is_named_and_nobody_is_told_to_remove_it(content, tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read .*; it may be none, so name") as refusal:
        found(penalty=0.1, most_sweeps=1, checkpoint=path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "remove" not in str(refusal.value)
    assert path.read_bytes() == content


def test_a_checkpoint_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(Search, "sweep", lambda search: pytest.fail("a sweep was made"))
    (tmp_path / "table.csv").write_text("a,b")
    for path, said in (
        (tmp_path / "table.csv" / "x.st", "{path} cannot be written: .*; name another file"),
        (Path("/proc/x.safetensors"), "{path} cannot be written: .*; name another file"),
        (tmp_path, "must be a file but {path} is a folder; name a file in it$"),
        (
            Path("/dev/full"),
            "must be a regular file but {path} is a device, a pipe or a socket; name another file$",
        ),
    ):
        with pytest.raises(InputError, match=f"^checkpoint {said.format(path=path)}") as refusal:
            found(penalty=0.1, checkpoint=path)
        assert "store" not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "dangling"])
def test_a_checkpoint_behind_a_link_is_written_where_the_link_leads(is_there, tmp_path):
    target, link = tmp_path / "kept" / "search.safetensors", tmp_path / "link.safetensors"
    target.parent.mkdir()
    link.symlink_to(target.relative_to(tmp_path))
    if is_there:
        found(penalty=0.01, most_sweeps=2, checkpoint=target)
    whole = found(penalty=0.01, most_sweeps=4)
    same(found(penalty=0.01, most_sweeps=4, checkpoint=link), whole)
    assert link.is_symlink()
    assert [one.name for one in tmp_path.iterdir() if one != link] == ["kept"]
    assert list(target.parent.iterdir()) == [target]
    content = target.read_bytes()
    same(found(penalty=0.01, most_sweeps=4, checkpoint=target), whole)
    assert target.read_bytes() == content  # it was done


# What cannot be


@pytest.mark.parametrize(
    "options",
    [
        {"penalty": 1.5},
        {"penalty": 0.1, "n_features": 2},
        {"n_features": 9},
        {"batch_size": 501},
        {"samples": 1},
        {"previous": [["a", "z"]]},
        {"previous": ["ab"]},
        {"previous": [["a"]], "tau": 2},
        {"previous": [list("abcdefg")], "tau": 1, "n_features": 3},
        {"n_features": "3"},
        {"n_features": 2.0},
        {"n_features": True},
        {"penalty": ".1"},
        {"penalty": True},
        {"batch_size": 32.5},
        {"samples": 2.5},
        {"most_sweeps": 2.5},
        *({"hidden_layer_sizes": given} for given in (5, "8", b"8", {8, 16}, {8: 1})),
        {"hidden_layer_sizes": (8.5,)},
        {"hidden_layer_sizes": (8, 10**7)},
        {"seed": 1.5},
        {"seed": -1},
        {"previous": [3, 4]},
        {"previous": 3},
        {"previous": [[1.5]]},
        {"previous": [np.array([True, False])]},
        {"previous": [[0]], "tau": "0.5"},
        {"tau": 2},
        {"dissimilarity": "x"},
        {"baseline": "mode"},
        {"checkpoint": 5},
    ],
)
def test_what_cannot_be_is_refused_in_one_line_before_any_work(options, monkeypatch):
    monkeypatch.setattr(Search, "sweep", lambda search: pytest.fail("a sweep was made"))
    with pytest.raises(InputError) as refusal:
        found(**options)
    check_sentence("refusals/probabilistic selection", options, refusal.value)


GAP = "y must have a value in every row but has none in row"
MIXED = "y must hold labels of one type but holds 'a' and 1; make them all"


@pytest.mark.parametrize(
    ("y", "task", "said"),
    [
        (["no"] * 500, None, "y has the same value in every row, so there is nothing to learn"),
        ([1.5] * 500, None, "y has the same value in every row"),
        (np.arange(500) * 1e28, None, r"y must lie within -1e\+30..1e\+30, which .* in row 500"),
        (np.arange(500) / 3, "classification", "fewer classes than rows but has 500 classes in"),
        ([np.nan, 1.0] * 250, "classification", f"{GAP} 1"),
        ([{1}, "a"] * 250, None, r"y must hold numbers, .* or text but holds \{1\} in row 1"),
        (np.array([1, 2.5, "a", 1], object).repeat(125), None,
         "but holds 1 and 'a'; make them all"),
        (np.ma.masked_equal(np.arange(500.0), 7), None,
         "y must have no masked values, .* has 1; le"),
        *((y(["a", "b", np.nan, "b"] * 125), None, f"{GAP} 3") for y in (list, pd.Series)),
        *((y(["a", 1] * 250), None, MIXED) for y in (list, pd.Series)),
    ],
)  # fmt: skip
def test_a_target_of_which_nothing_can_be_learnt_is_refused(y, task, said):
    with pytest.raises(InputError, match=said):
        found(table()[0], y, task=task)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        *((["a", "b", gap], object) for gap in (None, np.nan)),
        *((["a", "b", None], kind) for kind in ("category", "string")),
        *(([1, 2, None], kind) for kind in ("category", "Int64")),
        *(([True, False, None], kind) for kind in ("boolean", object)),
        ([0, 1, None], "datetime64[ns]"),
    ],
)
def test_a_target_with_a_missing_label_is_refused_of_whatever_type(labels, kind):
    X, _ = table(n=180)
    for task in (None, "classification", "regression"):
        with pytest.raises(InputError, match="leave out the rows without a target") as refusal:
            found(X, pd.Series(labels * 60, dtype=kind), task=task)
        assert "\n" not in str(refusal.value)


def test_features_that_do_not_vary_are_never_among_those_that_are_found(monkeypatch):
    X, y = table()
    X[["a", "b", "c", "e"]] = 7.0
    X["f"] = np.nan
    assert found(X, y, n_features=3, most_sweeps=1).features == ("d", "g", "h")
    monkeypatch.setattr(Search, "sweep", lambda search: pytest.fail("a sweep was made"))
    with pytest.raises(InputError) as refusal:
        found(X, y, n_features=4)
    assert str(refusal.value) == (
        "n_features must be in 1..3 but is 4; left out: 'a', 'b', 'c', 'e' and 'f' (constant)"
    )
    for options in ({"n_features": 5}, {"penalty": 0.1}):
        with pytest.raises(InputError, match=r"X has no feature: left out: 'a', .* \(constant\);"):
            found(X[["a", "b", "f"]], y, **options)


def test_features_that_do_not_vary_are_not_kept_for_the_sake_of_the_distance(monkeypatch):
    X, y = table(d=5)
    X = X.assign(c=7.0, e="one")
    for options in ({"n_features": 2}, {"penalty": 0.1}):
        other = found(X, y, previous=[["a", "d"]], tau=0.5, most_sweeps=2, **options)
        assert "b" in other.features
        assert not {"c", "e"} & set(other.features)
    monkeypatch.setattr(Search, "sweep", lambda search: pytest.fail("a sweep was made"))
    with pytest.raises(InputError) as refusal:
        found(X, y, n_features=2, previous=[["a", "d"]], tau=1)
    assert str(refusal.value) == (
        "n_features must be at most 1, of features that vary and are tau 1 from all 1 previous "
        "sets, but is 2; ask for that, or lower tau"
    )
    with pytest.raises(InputError) as refusal:
        found(X, y, penalty=0.1, previous=[["a", "d"], ["b"]], tau=1)
    assert str(refusal.value) == (
        "previous sets must leave one that is tau 1 from all 2 of them, but no set of the 3 "
        "features that vary is; lower tau, or give fewer"
    )


def test_a_network_that_does_not_fit_into_the_memory_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(Training, "begin", lambda *sizes: pytest.fail("weights were drawn"))
    free = psutil.virtual_memory().total
    layers = (65_536,) * (2 + free // (5 * 4 * 65_536**2))
    X, y = table()
    for ask in (
        lambda: found(hidden_layer_sizes=layers),
        lambda: chaffinch.select(
            X.assign(y=y), "y", method=chaffinch.methods.Pefs(hidden_layer_sizes=layers)
        ),
    ):
        with pytest.raises(InputError, match=r"may take .*, the memory that is free, but hidden"):
            ask()
    with pytest.raises(InputError, match=r"give fewer samples, or a smaller batch_size"):
        found(samples=10**12)


# What changes no bit


def test_a_tau_of_0_constrains_nothing_and_changes_no_bit():
    one = found(penalty=0.1, most_sweeps=3)
    same(one, found(penalty=0.1, most_sweeps=3, previous=[("a", "d"), list("bcefgh")], tau=0))


@pytest.mark.parametrize("options", [{"penalty": Fraction(1, 8)}, {"tau": Fraction(1, 2)}])
def test_a_fraction_is_the_float_that_it_equals(options, tmp_path):
    given = {"penalty": 0.1, "previous": [("a", "d")], "most_sweeps": 1, **options}
    as_float = {name: float(value) for name, value in options.items()}
    one = found(**given, checkpoint=tmp_path / "search.safetensors")
    same(one, found(**{**given, **as_float}))
    same(one, found(**{**given, **as_float}, checkpoint=tmp_path / "search.safetensors"))


def test_a_target_of_another_shape_or_of_complex_numbers_is_refused():
    X, y = table()
    for column in (y[:, None], pd.DataFrame({"y": y})):
        same(found(X, column, most_sweeps=1), found(X, y, most_sweeps=1))
    for wrong in (y[:-1], np.column_stack((y, y))):
        with pytest.raises(InputError, match=r"^y must have shape \(500,\), .*; give one for each"):
            found(X, wrong)
    for task in ("classification", "regression", None):
        with pytest.raises(InputError, match=r"^y .*Complex data not supported"):
            found(X, np.where(y == "yes", 1j, 0), task=task)


def test_a_table_or_a_number_of_masks_that_cannot_be_is_refused():
    X, y = table()
    one = found(most_sweeps=1)
    far = X.assign(c=X["c"].mask(X.index == 7, -1e31))
    twice = X.set_axis([f"x{j % 7}" for j in range(8)], axis=1)
    for ask, said in (
        (lambda: found(X[["a"]], y),
         "pefs needs at least 2 features to choose from but has 1; add"),
        (lambda: found(far, y), r"feature 'c' of X must lie within .* is -1e\+31 in row 8"),
        (lambda: found(twice, y), "must have names that differ but has 'x0' twice; rename"),
        (lambda: one.predict(X[["a", "b"]]),
         "the table lacks 'c' and 'g', features that the model reads"),
        *(
            (lambda n=n: one.predict_averaged(X, n), f"n_samples must be .*at least 1 but is {n!r}")
            for n in (0, 1.5, "3", True, None)
        ),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            ask()
