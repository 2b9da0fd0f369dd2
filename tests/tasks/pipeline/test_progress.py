"""What a log, a terminal and a notebook show of a run while it continues."""

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError
from chaffinch.tasks.pipeline.progress import STEPS, RunProgress
from chaffinch.tasks.pipeline.progress.display import ProgressLines, shown
from tests.contracts.test_warnings import leaking_table

LINEAR = chaffinch.ModelSettings(name="linear", tuning="none")


class Night:
    """A log, and a clock that only the test moves on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seconds = 0.0
        self.progress = ProgressLines(self.lines.append, clock=lambda: self.seconds)


@pytest.fixture
def night() -> Night:
    return Night()


def test_a_stage_has_its_title_and_the_seconds_that_it_recorded(night):
    night.progress("split", 0, 1)
    assert night.lines == ["3/9 split the rows"]
    night.seconds = 5
    night.progress.end("split", 2.34)
    assert night.lines == ["3/9 split the rows", "3/9 split the rows: done after 2.3 s"]


def test_the_longer_a_stage_takes_the_more_seldom_it_says_where_it_is(night):
    night.progress("optimise_mask", 0, 1)
    for half_minutes in range(1, 241):
        night.seconds = 30.0 * half_minutes
        night.progress.report()
    told = [int(line.split()[-2]) for line in night.lines[1:]]
    assert told[:10] == [30 * times for times in range(1, 11)]
    assert all(after <= before * 1.1 + 30 for before, after in pairwise(told))
    assert len(told) < 60


def test_without_an_estimate_items_are_counted_and_no_time_is_claimed(night):
    night.progress("train_base_model", 0, 1)
    night.progress("train_base_model", 12, 60)
    night.seconds = 30
    night.progress.report()
    assert night.lines[-1] == "4/9 tune and train the model: 12 of 60 after 30 s"


def test_a_stage_that_was_finished_before_says_so_once(night):
    night.progress.end("split", None)
    night.progress.end("split", None)
    assert night.lines == ["3/9 split the rows: finished before"]


def test_the_checks_say_nothing_until_they_are_passed_or_take_long(night):
    night.progress("ingest", 0, 1)
    night.progress.end("ingest", 0.04)
    assert night.lines == []
    night.progress("split", 0, 1)
    assert night.lines == [
        "1/9 read the table",
        "1/9 read the table: done after 0.0 s",
        "3/9 split the rows",
    ]
    other = Night()
    other.progress("ingest", 0, 1)
    other.seconds = 30
    other.progress.report()
    assert other.lines == ["1/9 read the table", "1/9 read the table: after 30 s"]


class Clocked(RunProgress):
    """A run of which a test says how long it takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__(STEPS, clock=lambda: self.seconds)


def run_through(progress: Clocked, true: dict[str, float], n_items: int = 10) -> list[float]:
    """Go through stages of the true seconds; return the ratio of what was left to the truth."""
    ratios, total = [], sum(true.values())
    for stage, seconds in true.items():
        progress(stage, 0, n_items)
        for done in range(1, n_items + 1):
            progress.seconds += seconds / n_items
            progress(stage, done, n_items)
            left = progress.seconds_left
            if left is not None and total - progress.seconds > 1e-9:
                ratios.append(left / (total - progress.seconds))
        progress.end(stage, seconds)
    return ratios


TRUE = {"train_base_model": 20.0, "optimise_mask": 60.0, "retrain": 5.0, "evaluate": 5.0}


def test_the_time_left_of_a_right_estimate_is_right_all_the_time():
    progress = Clocked()
    progress.expect({stage: (seconds,) for stage, seconds in TRUE.items()})
    ratios = run_through(progress, TRUE)
    assert ratios == pytest.approx([1.0] * len(ratios), rel=0.02)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_an_estimate_of_fits_wrong_by_a_factor_is_corrected_by_what_they_took(factor):
    progress = Clocked()
    wrong = {stage: (factor * seconds,) for stage, seconds in TRUE.items()}
    progress.expect({**wrong, "evaluate": (TRUE["evaluate"],)})
    ratios = run_through(progress, TRUE)
    assert abs(np.log(ratios[0])) > np.log(1.5)
    assert all(0.5 < ratio < 2 for ratio in ratios[9:])


def test_fits_that_take_longer_than_estimated_do_not_lengthen_the_evaluation():
    progress = Clocked()
    progress.expect({"optimise_mask": (10.0,), "evaluate": (5.0,)})
    run_through(progress, {"optimise_mask": 40.0})
    assert progress.seconds_left == pytest.approx(5.0)


def test_the_first_fits_of_a_search_tell_how_long_the_others_take():
    true = {"optimise_mask": 60.0, "evaluate": 5.0}
    progress = Clocked()
    progress.expect({"train_base_model": (2.0,), "optimise_mask": (20.0,), "evaluate": (5.0,)})
    progress.end("train_base_model", 2.0)
    ratios = run_through(progress, true)
    assert all(0.5 < ratio < 2 for ratio in ratios)


def test_items_that_take_long_count_for_more_than_others():
    progress = Clocked()
    progress.expect({"train_base_model": (1.0, 9.0, 1.0, 9.0, 20.0)})
    progress("train_base_model", 0, 5)
    progress.seconds = 1.0
    progress("train_base_model", 1, 5)
    assert progress.seconds_left == pytest.approx(39.0)
    progress.seconds = 20.0
    progress("train_base_model", 4, 5)
    assert progress.seconds_left == pytest.approx(20.0)


def test_a_stage_of_unknown_length_has_no_time_left_before_its_first_item():
    progress = Clocked()
    estimate = {stage: (seconds,) for stage, seconds in TRUE.items()}
    progress.expect({**estimate, "optimise_mask": None})
    progress("train_base_model", 5, 10)
    assert progress.seconds_left is None
    progress.end("train_base_model", 20.0)
    progress("optimise_mask", 0, 10)
    progress.seconds = 30.0
    progress("optimise_mask", 5, 10)
    assert progress.seconds_left == pytest.approx(40.0, rel=0.3)


def test_the_share_of_a_run_never_falls():
    progress = Clocked()
    progress.expect({stage: (0.2 * seconds,) for stage, seconds in TRUE.items()})
    shares = []
    for stage, seconds in TRUE.items():
        progress(stage, 0, 1)
        progress.seconds += seconds
        shares.append(progress.share)
        progress.end(stage, seconds)
        shares.append(progress.share)
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1


def test_a_run_renews_its_estimate_by_the_tuning_and_the_model_that_it_chose(tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(20_000, 5)), columns=list("abcde"))
    table["y"] = table["a"] + random.normal(size=len(table))
    estimated = []

    class Estimates(RunProgress):
        def expect(self, estimate, warning=""):
            super().expect(estimate, warning)
            estimated.append((self.now, self.done, [*estimate]))

    def select():
        chaffinch.select(table, "y", model="linear", method="anova_f", verbose=Estimates(STEPS),
                         store=tmp_path)  # fmt: skip

    select()
    n_candidates = 1 + estimated[1][1]
    assert [(now, done) for now, done, _ in estimated] == [
        (None, 0),
        ("train_base_model", n_candidates - 1),
        (None, 0),
    ]
    assert ["train_base_model" in stages for _, _, stages in estimated] == [True, True, False]

    estimated.clear()
    select()
    assert estimated == []  # all of it was finished before


def small() -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(200, 3)), columns=list("abc"))
    return table.assign(y=2 * table["a"] + random.normal(size=200))


def test_without_a_terminal_python_shows_nothing_unless_asked(capsys):
    chaffinch.select(small(), "y", model=LINEAR, method="gbmo")
    assert capsys.readouterr() == ("", "")
    chaffinch.select(small(), "y", model=LINEAR, method="gbmo", verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "5/9 search for features" in err
    chaffinch.select(small(), "y", model=LINEAR, method="gbmo", verbose=False)
    assert capsys.readouterr() == ("", "")


def test_a_callback_takes_the_place_of_any_display(capsys):
    stages = []
    told = lambda stage, *_: stages.append(stage)  # noqa: E731
    chaffinch.select(small(), "y", model=LINEAR, method="gbmo", verbose=told)
    assert [*dict.fromkeys(stages)] == list(STEPS)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar_which_is_gone_at_the_end(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with shown(STEPS, None) as progress:
        assert isinstance(progress, RunProgress)
        progress("split", 0, 1)
        with shown(STEPS, None) as inner:  # one bar at a time
            assert not isinstance(inner, RunProgress)
    assert "split the rows" in capsys.readouterr().err


def test_verbose_must_be_a_truth_value_or_a_function():
    said = "verbose must be True, False, None or a function but is 'yes'"
    with pytest.raises(InputError, match=said):
        chaffinch.select(small(), "y", model=LINEAR, verbose="yes")


def test_data_quality_warnings_are_given_at_the_line_of_the_call():
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = chaffinch.select(leaking_table(), "churned", model=LINEAR, method="gbmo")
    ours = [one for one in given if one.category is chaffinch.DataQualityWarning]
    assert [str(one.message) for one in ours] == list(result.warnings)
    assert len(ours) == 2
    assert {one.filename for one in ours} == {__file__}


def test_the_selector_and_a_comparison_give_them_too():
    table = leaking_table()
    X, y = table.drop(columns="churned"), table["churned"]
    with pytest.warns(chaffinch.DataQualityWarning, match="'cancelled'"):
        chaffinch.FeatureSelector(method="gbmo", model=LINEAR).fit(X, y)
    with pytest.warns(chaffinch.DataQualityWarning, match="'cancelled'"):
        chaffinch.compare(table, "churned", methods=["anova_f"], models=[LINEAR], folds=2, seeds=1)


def test_they_can_be_made_errors_before_anything_is_trained():
    with warnings.catch_warnings():
        warnings.simplefilter("error", chaffinch.DataQualityWarning)
        with pytest.raises(chaffinch.DataQualityWarning):
            chaffinch.select(leaking_table(), "churned", model=LINEAR)
