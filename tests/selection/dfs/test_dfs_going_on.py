"""A descent that continues from its state: as if it had never stopped, or with newer rows."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from chaffinch.tasks.selection.checkpoint_file import sealed, unsealed
from chaffinch.tasks.selection.dfs.descent import from_bytes, to_bytes
from chaffinch.tasks.selection.dfs.learning import learn
from chaffinch.tasks.selection.dfs.observations import Observations
from chaffinch.tasks.selection.dfs.search import Aim, Rules, select_by_descent
from tests.selection.dfs.synthetic import FORMS, INFORMATIVE, as_form, synthetic

N_ROWS = 12_000


def all_of(state):
    """Return everything in a state, arrays as bytes."""
    learned = state.learned
    parts = [vars(one) for one in (state.held, learned.columns, learned.outputs, state.draws)]
    values = [value for part in parts for value in part.values()]
    values += [learned.top, learned.latest]
    return [v.tobytes() if isinstance(v, np.ndarray) else v for v in values]


@FORMS
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_descent_goes_on_from_its_state_as_if_it_had_never_stopped(form, kind) -> None:
    X, y = synthetic(N_ROWS)
    X, aim = as_form(X.astype(kind), form), Aim(n_features=5)
    whole = select_by_descent(X, y, aim, Rules(steps=15))
    first = select_by_descent(X, y, aim, Rules(steps=4))
    state = from_bytes(to_bytes(first.state))
    second = select_by_descent(X, y, aim, Rules(steps=11), start=state)
    assert (second.scores == whole.scores).all()
    assert np.r_[first.losses, second.losses].tolist() == whole.losses.tolist()
    assert np.r_[first.penalties, second.penalties].tolist() == whole.penalties.tolist()
    assert all_of(from_bytes(to_bytes(second.state))) == all_of(whole.state)


@FORMS
def test_newer_rows_are_added_to_what_is_known(form) -> None:
    X, y = synthetic(N_ROWS)
    X, half = as_form(X, form), N_ROWS // 2
    parts = [(X[:half], y[:half] + 4), (X[half:], y[half:])]
    first = select_by_descent(*parts[0], Aim(n_features=3), Rules())
    later = select_by_descent(*parts[1], Aim(n_features=4), Rules(), start=first.state)
    both = np.concatenate([parts[0][1], parts[1][1]])
    learned, whole = later.state.learned, learn(Observations(X, both), None)
    assert learned.columns.n_rows == learned.outputs.n_rows == len(both)
    np.testing.assert_allclose(
        learned.columns.variance, whole.columns.variance, rtol=1e-12, atol=1e-15
    )
    assert learned.outputs.mean == pytest.approx(whole.outputs.mean)
    assert learned.outputs.variance == pytest.approx(whole.outputs.variance)
    assert learned.top >= first.state.learned.top
    assert learned.top == pytest.approx(whole.top, rel=0.1)
    assert set(later.features) > set(INFORMATIVE)
    begin = 1 / (1 + np.exp(-2 * np.clip(first.scores[first.scores != -30], -1.5, 1.5)))
    assert later.sums[0] == pytest.approx(begin.sum(), rel=1e-6)  # that mask, within reach
    assert later.state.held.n_drawn == len(later.losses)


def test_what_newer_rows_need_comes_back_and_earlier_rows_can_be_forgotten() -> None:
    """Other columns make the newer target; the more of the former rows counts the less is found."""
    X, y = synthetic(4000)
    newer = X[2000:], 3 * X[2000:, 40] / X[:, 40].std() + y[2000:]
    first = select_by_descent(X[:2000], y[:2000], Aim(n_features=3), Rules())
    assert first.features.tolist() == INFORMATIVE
    for decay in (None, 1.0, 0.1):
        later = select_by_descent(*newer, Aim(n_features=4), Rules(decay=decay), start=first.state)
        assert later.features.tolist() == [*INFORMATIVE, 40]
        n_rows = 2000 + (200 if decay == 0.1 else 2000)
        assert later.state.learned.columns.n_rows == n_rows
    share = 200 / 2200
    means = [part.mean(axis=0) for part in (X[:2000], X[2000:])]
    expected = share * means[0] + (1 - share) * means[1]
    np.testing.assert_allclose(later.state.learned.columns.mean, expected, rtol=1e-9, atol=1e-12)
    for decay in (0, 1.5, "half", True):
        with pytest.raises(ValueError, match="decay must be above 0 and at most 1 but is"):
            select_by_descent(*newer, Aim(n_features=4), Rules(decay=decay), start=first.state)


def test_a_column_that_newer_rows_make_vary_comes_back_and_others_stay_as_they_are() -> None:
    X, y = synthetic(4000)
    X[:2000, 25] = 1.5
    older, newer = (X[:2000], y[:2000]), (X[2000:], y[2000:])
    first = select_by_descent(*older, Aim(n_features=2), Rules(steps=50))
    assert first.scores[25] == first.scores[9] == -30
    again = select_by_descent(*older, Aim(n_features=2), Rules(), start=first.state)
    assert again.scores[25] == -30
    later = select_by_descent(*newer, Aim(n_features=3), Rules(), start=again.state)
    assert later.features.tolist() == INFORMATIVE
    assert later.scores[9] == -30
    begin = np.clip(again.scores[again.scores != -30], -1.5, 1.5)
    assert later.sums[0] == pytest.approx((1 / (1 + np.exp(-2 * begin))).sum() + 0.5, rel=1e-6)


def test_constants_that_an_earlier_release_kept_in_its_state_go_out() -> None:
    X, y = synthetic(1200)
    state = select_by_descent(X, y, Aim(n_features=3), Rules(steps=5)).state
    v, kept = state.held.v.copy(), state.held.kept.copy()
    v[9], kept[9] = 0.0, 0.5
    earlier = replace(state, held=replace(state.held, v=v, kept=kept))
    found = select_by_descent(X, y, Aim(n_features=3), Rules(steps=5), start=earlier)
    assert found.scores[9] == -30
    expected = select_by_descent(X, y, Aim(n_features=3), Rules(steps=5), start=state)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9)


def test_more_columns_than_vary_are_refused_with_a_start_too() -> None:
    X, y = synthetic(3000)
    X[:, 4:] = 2.0
    said = "n_features must be at most 4, as only 4 of 60 columns vary, but is 5; ask for at most 4"
    state = select_by_descent(X, y, Aim(n_features=4), Rules(steps=1)).state
    for start in (None, state):
        with pytest.raises(ValueError, match=said):
            select_by_descent(X, y, Aim(n_features=5), Rules(), start=start)


@FORMS
def test_newer_rows_are_counted_once_however_often_the_descent_stops_among_them(form) -> None:
    X, y = synthetic(N_ROWS)
    X, half = as_form(X, form), N_ROWS // 2
    older, newer = (X[:half], y[:half]), (X[half:], y[half:])
    aim, start = Aim(n_features=5), select_by_descent(*older, Aim(penalty=1.0), Rules()).state
    whole = select_by_descent(*newer, aim, Rules(steps=9), start=start)
    first = select_by_descent(*newer, aim, Rules(steps=4), start=start)
    kept = from_bytes(to_bytes(first.state))
    second = select_by_descent(*newer, aim, Rules(steps=5), start=kept)
    assert all_of(second.state) == all_of(whole.state)
    assert second.state.learned.columns.n_rows == N_ROWS


def test_the_same_rows_with_another_seed_are_drawn_from_the_start() -> None:
    X, y = synthetic(2400)
    first = select_by_descent(X, y, Aim(penalty=1.0), Rules(steps=5))
    other = select_by_descent(X, y, Aim(penalty=1.0), Rules(steps=5, seed=1), start=first.state)
    assert other.state.held.n_drawn == other.state.held.n_steps == 5
    assert other.state.learned is first.state.learned


def test_classes_are_those_of_the_start() -> None:
    X, y = synthetic(2400)
    three = np.array(["a", "b", "c"])[np.digitize(y, [-2, 2])]
    first = select_by_descent(X, three, Aim(n_features=3), Rules(steps=9))
    few = three != "c"
    later = select_by_descent(
        X[few], three[few], Aim(n_features=3), Rules(steps=9), start=first.state
    )
    assert later.state.learned.outputs.labels.tolist() == ["a", "b", "c"]
    said = "y holds the class 'd', which was none of the 3 before; begin again, without start"
    four = np.where(three == "c", "d", three)
    with pytest.raises(ValueError, match=said):
        select_by_descent(X, four, Aim(n_features=3), Rules(), start=first.state)


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda X, y: (X[:, :59], y), {}, "X must have 60 columns, .* but has 59"),
        (lambda X, y: (scipy.sparse.csr_array(X), y), {}, "X must be dense .* is sparse float64"),
        (lambda X, y: (X.astype(np.float32), y), {}, "X must be dense float64, .* dense float32"),
        (lambda X, y: (X, np.where(y > 0, "a", "b")), {}, "y must hold numbers, .* but holds text"),
        (lambda X, y: (X, y), {"task": "classification"}, "task must be regression, as it was"),
    ],
)
def test_rows_of_another_kind_are_no_newer_rows(change, options, said) -> None:
    X, y = synthetic(1200)
    state = select_by_descent(X, y, Aim(penalty=1.0), Rules(steps=1)).state
    with pytest.raises(ValueError, match=said):
        select_by_descent(*change(X, y), Aim(penalty=1.0), Rules(**options), start=state)


def test_tables_in_memory_that_have_names_are_known_by_them() -> None:
    X, y = synthetic(1200)
    frame = pd.DataFrame(X).add_prefix("x")
    aim, rules = Aim(penalty=1.0), Rules(steps=1)
    state = from_bytes(to_bytes(select_by_descent(frame, y, aim, rules).state))
    assert state.learned.names == tuple(frame.columns)
    for newer in (frame[:1100], X[:1100], pd.DataFrame(X[:1100])):
        later = select_by_descent(newer, y[:1100], aim, rules, start=state)
        assert later.state.learned.names == state.learned.names
    said = "X must have the column 'x0', as at the start, where it has 'x59'; give the same columns"
    with pytest.raises(ValueError, match=said):
        select_by_descent(frame[frame.columns[::-1]], y, aim, rules, start=state)


def test_a_state_without_names_learns_those_of_the_same_rows_and_goes_on_as_it_was() -> None:
    X, y = synthetic(1200)
    frame, aim = pd.DataFrame(X).add_prefix("x"), Aim(penalty=1.0)
    whole = select_by_descent(X, y, aim, Rules(steps=3))
    nameless = from_bytes(to_bytes(select_by_descent(X, y, aim, Rules(steps=1)).state))
    assert nameless.learned.names is None
    named = select_by_descent(frame, y, aim, Rules(steps=2), start=nameless)
    assert (named.scores == whole.scores).all()
    assert named.state.learned.names == tuple(frame.columns)


def test_two_lots_of_rows_that_are_too_large_together_name_the_column() -> None:
    X, y = synthetic(2000)
    X[:, 7] = np.where(np.arange(2000) < 1000, 1.0, -1.0) * 1e160
    for table, name in ((X, "7"), (pd.DataFrame(X).add_prefix("x"), "'x7'")):
        state = select_by_descent(table[:1000], y[:1000], Aim(penalty=1.0), Rules(steps=1)).state
        with pytest.raises(ValueError, match=f"but column {name} has larger ones"):
            select_by_descent(table[1000:], y[1000:], Aim(penalty=1.0), Rules(), start=state)


def test_text_is_no_class_where_numbers_were() -> None:
    X, y = synthetic(1200)
    rules = Rules(steps=1, task="classification")
    state = select_by_descent(X, np.digitize(y, [-2, 2]), Aim(penalty=1.0), rules).state
    with pytest.raises(ValueError, match="y must be of classes like 0, as at the start, but"):
        select_by_descent(X, np.where(y > 0, "a", "b"), Aim(penalty=1.0), Rules(), start=state)


def of_an_earlier_format(state, number, blocks, **more):
    """Return a state as earlier releases wrote it, whose rows came in blocks."""
    tensors, metadata, _ = unsealed(to_bytes(state))
    fields = json.loads(metadata["state"])
    fields["draws"] |= {"block_rows": blocks, "blocks_per_step": 1}
    del fields["draws"]["n_rows"]
    metadata |= {"format_version": number, "state": json.dumps(fields)}
    return from_bytes(sealed({**tensors, **more}, metadata))


def test_a_state_of_an_earlier_format_goes_on_as_it_was() -> None:
    X, y = synthetic(1200)
    state = select_by_descent(X, y, Aim(penalty=1.0), Rules(steps=1)).state
    peaks = np.ones_like(state.held.v)  # which nothing needs
    assert all_of(of_an_earlier_format(state, "1", [1200], peaks=peaks)) == all_of(state)
    assert all_of(of_an_earlier_format(state, "2", [1200])) == all_of(state)


def test_rows_after_a_state_of_several_blocks_are_newer() -> None:
    X, y = synthetic(4000)
    learned_in_blocks = None
    for first in (0, 1000):  # as an earlier release read them, one block after the other
        part = slice(first, first + 1000)
        learned_in_blocks = learn(Observations(X[part], y[part]), None, learned_in_blocks)
    state = select_by_descent(X[:2000], y[:2000], Aim(n_features=3), Rules()).state
    state = replace(state, learned=learned_in_blocks)
    earlier = of_an_earlier_format(state, "2", [1000, 1000])
    later = select_by_descent(X[2000:], y[2000:], Aim(n_features=3), Rules(), start=earlier)
    assert later.features.tolist() == INFORMATIVE
    assert later.state.learned.columns.n_rows == 4000
    assert later.state.held.n_drawn == len(later.losses)


def damaged(change):
    X, y = synthetic(1200)
    state = select_by_descent(X, y, Aim(penalty=1.0), Rules(steps=1)).state
    return to_bytes(change(state))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda: b"nothing", "the state cannot be read"),
        (lambda: damaged(lambda s: s)[:-9], "the state cannot be read"),
        (
            lambda: damaged(lambda s: s).replace(
                b"chaffinch differentiable", b"another       diff"
            ),
            "the state cannot be read|is not of a differentiable selection",
        ),
        (
            lambda: damaged(lambda s: s).replace(b'"format_version":"3"', b'"format_version":"4"'),
            "the state has format 4 but this release reads 1, 2, 3; update chaffinch",
        ),
        (
            lambda: damaged(lambda s: replace(s, held=replace(s.held, v=s.held.v[1:]))),
            "the state is damaged .its parts do not fit",
        ),
        (
            lambda: damaged(lambda s: replace(s, held=replace(s.held, mean=s.held.v * np.nan))),
            "the state is damaged",
        ),
        (
            lambda: damaged(lambda s: replace(s, learned=replace(s.learned, names=("a", "b")))),
            "the state is damaged .its parts do not fit",
        ),
        (lambda: damaged(lambda s: s).replace(b'\\"n_steps\\"', b'\\"n_stops\\"'), "is damaged"),
    ],
)
def test_what_is_no_state_is_refused(content, said) -> None:
    with pytest.raises(ValueError, match=said) as refusal:
        from_bytes(content())
    assert "\n" not in str(refusal.value)
