"""Rows that are read block by block: the figures of the same rows in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from itertools import groupby

import numpy as np
import pytest
import scipy.sparse
import torch

from chaffinch.tasks.selection.dfs.batches import Draws
from chaffinch.tasks.selection.dfs.estimate import chain_weights, dense_z
from chaffinch.tasks.selection.dfs.passes import Sharing, here, learn
from chaffinch.tasks.selection.dfs.residual_variance import (
    over_all_rows,
    read_table,
    residual_variance,
)
from chaffinch.tasks.selection.dfs.scaling import EXACTLY, merged, moments_of
from chaffinch.tasks.selection.dfs.search import (
    Aim,
    Rules,
    open_descent,
    path_by_descent,
    select_by_descent,
)
from chaffinch.tasks.selection.dfs.sources import InMemory, merged_outputs, outputs_of
from tests.selection.dfs.test_dfs_residual_variance import plain
from tests.selection.masked_loss.blocks_of_rows import (
    FORMS,
    INFORMATIVE,
    SIZES,
    Blocks,
    as_form,
    learnt,
    of_blocks,
    outputs_in,
    synthetic,
)

# --- what is known of all rows ------------------------------------------------------------------


@FORMS
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_moments_and_the_singular_value_of_blocks_are_those_of_all_rows(form, kind) -> None:
    source = of_blocks(form, kind)
    found = learnt(source)
    whole = learnt(InMemory(source.X, source.y))
    ours, theirs = found.columns, whole.columns
    assert ours.form == theirs.form == f"{form} {kind}"
    off = (ours.mean - theirs.mean) + (ours.rest - theirs.rest)
    assert np.abs(off / np.sqrt(np.abs(theirs.variance) + 1e-9)).max() < 1e-12
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-12, atol=1e-15)
    assert (ours.varies == theirs.varies).all()
    assert not ours.varies[9]
    assert ours.varies[11]
    if form == "sparse":
        assert (ours.stored == theirs.stored).all()
    assert found.outputs.variance == pytest.approx(whole.outputs.variance, rel=1e-12)
    assert found.outputs.mean == pytest.approx(whole.outputs.mean, abs=1e-12)
    assert found.top == pytest.approx(whole.top, rel=5e-3)  # both stop early
    exact = np.linalg.norm(standardised(source.X) / np.sqrt(sum(SIZES)), 2)
    assert 0.997 * exact < found.top < 1.01 * exact


def standardised(X):
    dense = (X.toarray() if scipy.sparse.issparse(X) else X).astype(float)
    sd = dense.std(axis=0)
    return (dense - dense.mean(axis=0)) / np.where(sd > 1e-12, sd, np.inf)


@FORMS
def test_far_from_zero_no_digits_are_lost_between_blocks(form) -> None:
    random = np.random.default_rng(0)
    X = np.round(random.normal(size=(4000, 5)) * 64) / 64
    parts = [moments_of(as_form(part, form)) for part in np.split(X + 2.0**26, 8)]
    whole = reduce(merged, parts)
    exact = X.mean(axis=0)
    np.testing.assert_allclose((whole.mean - 2.0**26) + whole.rest, exact, rtol=0, atol=1e-13)
    np.testing.assert_allclose(whole.variance, X.var(axis=0), rtol=1e-12)


def test_targets_of_blocks_are_in_units_of_all_rows() -> None:
    random = np.random.default_rng(0)
    y = np.concatenate([np.zeros(1000), random.normal(size=3000), 1e150 * random.random(1000)])
    labels = np.array(["a", "b", "c"])
    classes = labels[random.integers(0, 3, 5000)]
    for target, known in ((y, None), (classes, labels), (classes[classes != "c"], labels[:2])):
        parts = [outputs_of(part, known) for part in np.array_split(target, 5)]
        found = reduce(merged_outputs, parts)
        expected = outputs_in(target)
        np.testing.assert_allclose(found.of(target), expected, rtol=1e-9, atol=1e-12)
    same = [outputs_of(np.full(9, value), None) for value in (2.0, 2.0, 3.0)]
    assert not merged_outputs(*same[:2]).varies
    assert merged_outputs(*same[1:]).varies


# --- all rows at once ---------------------------------------------------------------------------


@FORMS
@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("target", ["numbers", "classes"])
def test_over_all_rows_the_blocks_are_one_chain_as_equation_1_has_it(form, order, target) -> None:
    sizes = (70, 1, 9, 64)
    X, y = synthetic(sum(sizes))
    if target == "classes":
        y = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    random = np.random.default_rng(order)
    source = Blocks(as_form(X, form), y, sizes)
    kept, learned = random.random(X.shape[1]), learn(source, None, Sharing(), effort=EXACTLY)
    z, gradient = over_all_rows(source, learned, kept, order)
    outputs = outputs_in(y)
    scaled = standardised(X) / learned.top
    value, slope = plain(scaled, outputs, kept, order)
    assert 1 - z == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(-gradient, slope, rtol=1e-10, atol=1e-12 * np.abs(slope).max())
    if target == "classes":
        outputs = np.equal.outer(y, [0, 1, 2]).astype(float)
        outputs -= outputs.mean(axis=0)
    else:
        outputs = y - y.mean()
    value, slope = plain(scaled, outputs, kept, order)
    ours, our_slope = residual_variance(source, None, kept, order)
    assert ours == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(our_slope, slope, rtol=1e-10, atol=1e-12 * np.abs(slope).max())
    memory, of_memory = residual_variance(source.X, outputs, kept, order)
    assert ours == pytest.approx(memory, rel=1e-9)
    np.testing.assert_allclose(our_slope, of_memory, rtol=1e-7, atol=1e-9 * np.abs(slope).max())


@FORMS
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_over_all_rows_it_does_not_matter_how_they_are_cut(form, kind) -> None:
    source = of_blocks(form, kind)
    one = Blocks(source.X, source.y, (sum(SIZES),))
    kept, learned = np.random.default_rng(0).random(60), learnt(source)
    z, gradient = over_all_rows(source, learned, kept, 4)
    source.read_so_far.clear()
    whole, whole_gradient = over_all_rows(one, learned, kept, 4)
    near = 1e-11 if kind == "float64" else 1e-5
    assert z == pytest.approx(whole, rel=near)
    np.testing.assert_allclose(
        gradient, whole_gradient, rtol=0, atol=near * np.abs(whole_gradient).max()
    )
    over_all_rows(source, learned, kept, 4)
    assert source.read_so_far == [*range(11), *reversed(range(11))]  # one at a time, each twice


@FORMS
@pytest.mark.parametrize("order", [1, 4])
def test_the_residual_variance_of_a_source_is_that_of_memory_however_rows_are_cut(
    form, order
) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 300)) * (random.random((3000, 300)) < 0.1)
    y, kept = X[:, :5].sum(axis=1) + random.normal(size=3000), random.random(300)
    memory, slope = residual_variance(as_form(X, form), y, kept, order)
    for sizes in ((3000,), (500,) * 6, (1300, 700, 1000)):
        source = Blocks(as_form(X, form), y, sizes)
        value, gradient = residual_variance(source, None, kept, order)
        assert value == pytest.approx(memory, rel=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-9 * np.abs(slope).max())


def test_two_classes_are_one_output_of_a_source_as_of_a_column_in_memory() -> None:
    X, y = synthetic(900)
    names, kept = np.where(y > 0, "yes", "no"), np.full(60, 0.5)
    value, gradient = residual_variance(Blocks(X, names, (900,)), None, kept)
    one, slope = residual_variance(X, names == "yes", kept)
    assert value == pytest.approx(one, rel=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-12)
    both, _ = residual_variance(X, np.equal.outer(names, ["no", "yes"]), kept)
    assert both == pytest.approx(2 * value, rel=1e-9)


def test_over_all_rows_it_varies_less_than_over_batches() -> None:
    """Of noise the truth is 1; the mean of blocks of 1,000 rows is as much off as they are few."""
    random = np.random.default_rng(0)
    off = {"all": [], "blocks": []}
    for _ in range(8):
        X, y = random.normal(size=(4000, 200)), random.normal(size=4000)
        source = Blocks(X, y, (1000,) * 4)
        off["all"].append(residual_variance(source, None, np.ones(200))[0] / y.var() - 1)
        of_blocks_alone = [
            residual_variance(*source.read(block), np.ones(200))[0] / source.read(block)[1].var()
            for block in range(4)
        ]
        off["blocks"].append(np.mean(of_blocks_alone) - 1)
    assert np.std(off["all"]) < np.std(off["blocks"])


def test_over_all_rows_a_source_gives_its_own_target() -> None:
    source, kept = of_blocks(), np.ones(60)
    for X, y, s, order, said in (
        (source, source.y, kept, 4, "y must be left out where X is a source"),
        (source.X, None, kept, 4, "y must be given with a table in memory"),
        (source, None, kept[1:], 4, r"s must have shape \(60,\)"),
        (source, None, kept, 9, r"order must be in 1\.\.8 but is 9"),
    ):
        with pytest.raises(ValueError, match=said):
            residual_variance(X, y, s, order)
    assert source.read_so_far == []
    huge = Blocks(source.X, source.y * 1e200)
    with pytest.raises(ValueError, match="y must hold numbers whose squares are finite but has"):
        residual_variance(huge, None, kept)
    assert huge.read_so_far == [block for part in range(8) for block in range(part, 11, 8)]


# --- steps --------------------------------------------------------------------------------------


@FORMS
@pytest.mark.parametrize("blocks_per_step", [1, 3])
def test_a_step_is_torchs_adam_on_the_mean_over_batches_of_the_whole_table(
    form, blocks_per_step
) -> None:
    """Each batch by the plain dense estimate on all rows, whose scale is that of all rows."""
    source = of_blocks(form)
    descent = open_descent(source, Rules(order=3, blocks_per_step=blocks_per_step, seed=4))
    table = read_table(source.X if form == "dense" else source.X.toarray())
    outputs = outputs_in(source.y)
    off = ratio(source, descent)
    table = replace(table, inverse=table.inverse * off, rest=table.rest * off)
    batches = Draws(SIZES, 1000, blocks_per_step, 4).steps()
    v = torch.zeros(60, dtype=torch.float64)
    v[9] = -30  # constant
    v.requires_grad_()
    adam = torch.optim.Adam([v], lr=0.1)
    for _ in range(14):
        drawn = next(batches)
        assert len({block for block, _ in drawn}) == blocks_per_step
        s = torch.sigmoid(2 * v)
        found = [
            dense_z(table, rows, s.detach().numpy(), outputs[rows], chain_weights(3, len(rows)))
            for rows in (source.starts[block] + rows for block, (rows,) in drawn)
        ]
        adam.zero_grad()
        s.backward(torch.from_numpy(2.0 / 60 - np.mean([slope for _, slope in found], axis=0)))
        torch.nn.utils.clip_grad_norm_([v], 1.0)
        step = descent.step(penalty=2.0)
        of_penalty = 2.0 / 60 * float(s.detach().sum())
        assert step.loss == pytest.approx(1 - np.mean([z for z, _ in found]) + of_penalty, rel=1e-9)
        adam.step()
        np.testing.assert_allclose(descent.v, v.detach().numpy(), rtol=1e-6, atol=1e-9)


def ratio(source, descent):
    """Return the singular value of `read_table` over that of a descent, which stops early."""
    found = learn(InMemory(source.X, source.y), None, Sharing(), effort=EXACTLY)
    return found.top / descent.learned.top


@FORMS
def test_one_block_is_a_table_in_memory_to_the_last_bit(form) -> None:
    source = of_blocks(form)
    one = Blocks(source.X, source.y, [len(source.y)])
    for aim in (Aim(n_features=4), Aim(penalty=0.5)):
        found = select_by_descent(one, None, aim, Rules(steps=12))
        expected = select_by_descent(source.X, source.y, aim, Rules(steps=12))
        assert (found.scores == expected.scores).all()
        assert (found.losses == expected.losses).all()
        assert (found.features == expected.features).all()


@FORMS
@pytest.mark.parametrize("blocks_per_step", [1, 4])
def test_no_number_of_parts_changes_a_bit(form, blocks_per_step) -> None:
    rules = Rules(steps=9, blocks_per_step=blocks_per_step)
    scores = {
        select_by_descent(
            of_blocks(form), None, Aim(n_features=4), rules, Sharing(here, partial(int, n_threads))
        ).scores.tobytes()
        for n_threads in (1, 2, 3, 20)
    }
    assert len(scores) == 1


@FORMS
def test_what_makes_the_target_is_chosen_and_a_path_goes_on_from_the_last(form) -> None:
    source = of_blocks(form)
    found = select_by_descent(source, None, Aim(n_features=3), Rules(blocks_per_step=2))
    assert found.features.tolist() == INFORMATIVE
    source.y = np.where(source.y > 0, "yes", "no")
    source.target_type = source.y.dtype
    by_class = select_by_descent(source, None, Aim(n_features=3), Rules())
    assert by_class.features.tolist() == INFORMATIVE
    path = path_by_descent(of_blocks(form), None, [0.1, 1.0, 50.0], Rules(steps=20))
    sizes = [len(one.features) for one in path]
    assert sizes == sorted(sizes, reverse=True)
    assert path[1].sums[0] == pytest.approx(path[0].kept.sum(), rel=1e-9)


def test_every_block_serves_in_every_round_and_is_read_once_for_it() -> None:
    source = Blocks(*synthetic(9600), [3200, 3200, 3200])
    descent = open_descent(source, Rules())
    source.read_so_far.clear()
    for _ in range(18):
        descent.step(penalty=1.0)
    steps = Draws((3200, 3200, 3200), 1000, 1, 0).steps()
    drawn = [next(steps)[0] for _ in range(18)]
    blocks = [block for block, _ in drawn]
    assert sorted(blocks[:9]) == sorted(blocks[9:]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert source.read_so_far == [key for key, _ in groupby(blocks)]
    seen = np.concatenate([3200 * block + rows for block, (rows,) in drawn[:9]])
    assert len(set(seen)) == len(seen) == 9 * 1066


# --- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "options", "said"),
    [
        ([1200, 800], {}, "blocks must have 1000 rows at least, .* but one has 800; make them"),
        ([1000, 1000], {"blocks_per_step": 3}, r"must be in 1\.\.2, .* but is 3; take"),
        ([1000, 1000], {"blocks_per_step": 0}, r"must be in 1\.\.2, .* but is 0; leave it out$"),
        ([1200], {"blocks_per_step": 2}, r"must be in 1\.\.1, .* but is 2; leave it out$"),
        ([2400], {"blocks_per_step": 2}, r"but is 2; leave it out, or make blocks smaller$"),
        ([1500, 1500], {"blocks_per_step": 3}, "but is 3; take fewer, or make blocks smaller$"),
        ([1000, 1000], {"blocks_per_step": 1.5}, "blocks_per_step must be a whole number"),
        ([1000, 1200], {"batch_rows": 1100}, r"batch_rows must be in 5\.\.1000 but is 1100"),
        ([1000], {"task": "classification"}, None),
    ],
)
def test_sources_and_settings_that_cannot_be_are_refused_before_any_row_is_read(
    sizes, options, said
) -> None:
    X, y = synthetic(sum(sizes))
    source = Blocks(X, y, sizes)
    if said is None:
        type(source).labels, kept = property(lambda self: None), Blocks.labels
        said = "y must hold classes but has too many values to be that; set task to regression"
        try:
            with pytest.raises(ValueError, match=said):
                select_by_descent(source, None, Aim(n_features=3), Rules(**options))
        finally:
            Blocks.labels = kept
        return
    with pytest.raises(ValueError, match=said):
        select_by_descent(source, None, Aim(n_features=3), Rules(**options))
    assert source.read_so_far == []


def test_a_source_has_a_target_of_its_own_and_a_table_needs_one() -> None:
    X, y = synthetic(1200)
    with pytest.raises(ValueError, match="y must be left out where X is a source"):
        select_by_descent(Blocks(X, y, [1200]), y, Aim(n_features=3), Rules())
    with pytest.raises(ValueError, match="y must be given with a table in memory"):
        select_by_descent(X, None, Aim(n_features=3), Rules())


@FORMS
def test_rows_that_no_estimate_can_be_made_of_are_refused_wherever_they_are(form) -> None:
    for change, said in (
        (lambda X, y: (X * np.where(np.arange(60) == 7, np.nan, 1), y), "finite but column 7 is"),
        (lambda X, y: (X * 0 + 2, y), "must have a column that varies but all 60 are constant"),
        (lambda X, y: (X, y * 0 + 2), "y must vary but is the same in every row"),
        (lambda X, y: (X, np.where(np.arange(len(y)) == 3, np.nan, y)), "y must be finite"),
    ):
        X, y = change(*synthetic(2000))
        with pytest.raises(ValueError, match=said):
            select_by_descent(
                Blocks(as_form(X, form), y, [1000, 1000]), None, Aim(penalty=1.0), Rules()
            )
