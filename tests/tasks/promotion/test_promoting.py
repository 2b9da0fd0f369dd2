"""Which contract is the one in use, by Python."""

import json
import shutil

import pytest

import chaffinch
from chaffinch import InputError, StorageError
from chaffinch.storage.runs.decisions import needed_decision
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.promotion.gate import why_undecided
from chaffinch.tasks.promotion.promote import against_promoted, kept_run
from tests.tasks.synthetic_runs import causes, run_of

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one file, and one of a table in memory."""
    store = tmp_path_factory.mktemp("store")
    found = []
    for names in (("x1", "x2"), ("x2", "x3")):
        source = tmp_path_factory.mktemp("tables") / "orders.csv.gz"
        causes(*names, seed=len(found)).to_csv(source, index=False)
        found.append(run_of(source, store))
    return [*found, run_of(causes("x4", "x5"), store)]


@pytest.fixture
def store(runs, tmp_path):
    """A copy of their store, in which nothing was promoted."""
    shutil.copytree(runs[0].folder.parents[1], tmp_path / "store")
    return tmp_path / "store"


def test_the_promoted_contract_is_the_one_in_use(runs, store):
    first, second, _ = runs
    entry = chaffinch.promote(first.run, reason="looked at", store=store)
    assert (entry.run, entry.how, entry.reason) == (first.run, "by hand", "looked at")
    assert chaffinch.promoted("orders", store=store) == first.contract
    assert chaffinch.promoted("orders", store=store).columns == ["x1", "x2"]
    chaffinch.promote(chaffinch.load_run(second.run, store=store))  # in its own store
    assert chaffinch.promoted("orders", store=store).features == ["x2", "x3"]
    history = chaffinch.promotions("orders", store=store)
    assert [one.run for one in history] == [first.run, second.run]


def test_a_rollback_brings_back_what_was_before_even_if_its_run_is_gone(runs, store):
    first, second, _ = runs
    for run in (first, second):
        chaffinch.promote(run.run, store=store)
    shutil.rmtree(store / "runs" / first.run)
    entry = chaffinch.rollback("orders", reason="no", store=store)
    assert (entry.run, entry.how) == (first.run, "rollback")
    assert chaffinch.promoted("orders", store=store) == first.contract
    with pytest.raises(InputError, match="there is none before it to go back to"):
        chaffinch.rollback("orders", store=store)


def test_a_run_against_what_is_promoted(runs, store):
    first, second, _ = runs
    run = kept_run(second.run, store)
    nothing = against_promoted(run, "orders")
    assert (nothing.history, nothing.difference) == ((), None)
    chaffinch.promote(first.run, store=store)
    found = against_promoted(run, "orders")
    assert len(found.history) == 1
    assert found.difference == chaffinch.difference(first.run, second.run, store=store)
    shutil.rmtree(store / "runs" / first.run)  # its table is still there
    assert against_promoted(run, "orders").difference == found.difference


def test_a_table_in_memory_has_no_name(runs, store):
    with pytest.raises(
        InputError, match=r"the table, DataFrame, has no name .*; give one, as in --name"
    ):
        chaffinch.promote(runs[2].run, store=store)
    chaffinch.promote(runs[2].run, "memory", store=store)
    assert chaffinch.promoted("memory", store=store).features == runs[2].features


def test_one_name_is_of_one_target(runs, store, tmp_path):
    chaffinch.promote(runs[0].run, store=store)
    table = causes("x1", "x2").rename(columns={"y": "gross profit"})
    table.to_csv(tmp_path / "orders.csv", index=False)
    other = run_of(tmp_path / "orders.csv", store, target="gross profit")
    with pytest.raises(InputError, match="as 'orders' predicts 'y' but this run 'gross profit'; pro"
                       "mote it under another name, such as orders-gross_profit"):  # fmt: skip
        chaffinch.promote(other)
    chaffinch.promote(other, "orders-gross_profit")
    assert len(chaffinch.promotions("orders", store=store)) == 1


@pytest.fixture(scope="module")
def of_classes(runs, tmp_path_factory):
    """A run in the same store that predicts the same column, of two classes."""
    table = causes("x1", "x2")
    folder = tmp_path_factory.mktemp("classes")
    table.assign(y=table["y"] > 0).to_csv(folder / "orders.csv", index=False)
    return run_of(folder / "orders.csv", runs[0].folder.parents[1])


def test_one_name_is_of_one_task(runs, of_classes, store):
    chaffinch.promote(runs[0].run, store=store)
    with pytest.raises(InputError, match="as 'orders' is a regression of 'y' but this run a clas"
                       "sification; promote it under another name, such as orders-cl"):  # fmt: skip
        chaffinch.promote(of_classes.run, store=store)
    against = against_promoted(kept_run(of_classes.run, store), "orders")
    change = "was one of regression, and is one of classification"
    assert against.difference.target_change == change
    assert why_undecided(of_classes.contract, against.difference) == f"the target {change}"
    leaks = of_classes.contract.comparison.model_copy(update={"leaks": ["x1"]})
    with_leak = of_classes.contract.model_copy(update={"comparison": leaks})
    both = f"the target {change}; the selection rests on 'x1', which may be a leak"
    assert why_undecided(with_leak, against.difference) == both
    chaffinch.promote(of_classes.run, "orders-classification", store=store)
    with pytest.raises(InputError, match="'orders-classification' is a classification of 'y' but"):
        chaffinch.promote(runs[0].run, "orders-classification", store=store)
    assert len(chaffinch.promotions("orders", store=store)) == 1


def test_a_run_that_is_promoted_under_the_suggested_name_needs_no_decision_any_more(
    runs, of_classes, store
):
    chaffinch.promote(runs[0].run, store=store)
    gated = chaffinch.promote_by_gate(of_classes.run, store=store)
    assert "promote it under another name, such as orders-classification" in gated.needs_decision
    run = kept_run(of_classes.run, store)
    assert needed_decision(run) == gated.needs_decision
    chaffinch.promote(of_classes.run, "orders-classification", store=store)
    assert needed_decision(run) == ""
    history = chaffinch.run_history(store=store).set_index("run")
    assert not history["is_open"].any()
    chaffinch.promote_by_gate(of_classes.run, "orders-classification", store=store)  # asked again
    history = chaffinch.run_history(store=store).set_index("run")
    assert history["decision"][of_classes.run].endswith(
        "; answered: Promoted as orders-classification"
    )


def test_a_name_that_is_suggested_can_be_given(runs, of_classes, store):
    longest = "a" * 115
    for name in ("orders", longest):
        chaffinch.promote(runs[0].run, name, store=store)
        with pytest.raises(InputError) as refusal:
            chaffinch.promote(of_classes.run, name, store=store)
        suggested = str(refusal.value).rpartition("such as ")[2]
        chaffinch.promote(of_classes.run, suggested, store=store)
        assert chaffinch.promoted(suggested, store=store).features == of_classes.features


def test_a_run_is_promoted_under_the_name_that_it_was_judged_under(runs, store):
    chaffinch.promote(runs[0].run, "shop", store=store)
    chaffinch.promote_by_gate(runs[1].run, "shop", store=store)
    chaffinch.promote(runs[1].run, store=store)
    assert [entry.run for entry in chaffinch.promotions("shop", store=store)][-1] == runs[1].run
    with pytest.raises(InputError):
        chaffinch.promotions("orders", store=store)


def test_a_job_reads_the_contract_in_use_also_where_its_run_was_removed(runs, store):
    first, second, _ = runs
    chaffinch.promote(first.run, store=store)
    shutil.rmtree(store / "runs" / first.run)
    assert chaffinch.load_contract("orders", store=store) == first.contract
    assert chaffinch.difference("orders", second.run, store=store).before == first.run
    with pytest.raises(InputError, match=f"run '{first.run}', which is in use as 'orders', is no"):
        chaffinch.load_run("orders", store=store)


def test_over_a_damaged_contract_the_ones_before_say_what_the_target_is(runs, of_classes, store):
    first, second, _ = runs
    for run in (first, second):
        chaffinch.promote(run.run, store=store)
    (store / "promotions" / "contracts" / contract_of(store)).write_bytes(b"{}")
    against = against_promoted(kept_run(first.run, store), "orders")
    assert against.difference is None
    assert against.damage.endswith("has changed since it was promoted")
    with pytest.raises(InputError, match="is a regression of 'y' but this run a classification"):
        chaffinch.promote(of_classes.run, "orders", store=store)
    chaffinch.promote(first.run, store=store)
    assert chaffinch.promoted("orders", store=store) == first.contract


def contract_of(store):
    """Return the name of the file that holds the contract in use."""
    return f"{chaffinch.promotions('orders', store=store)[-1].contract}.json"


def test_what_cannot_be_promoted(runs, store):
    with pytest.raises(InputError, match="there is no run 'nothing'"):
        chaffinch.promote("nothing", store=store)
    with pytest.raises(InputError, match="nothing was promoted as 'orders'"):
        chaffinch.promoted("orders", store=store)
    for name in ("../x", ""):
        with pytest.raises(InputError, match=f"a name must be 1..115 of .* but is '{name}'"):
            chaffinch.promote(runs[0].run, name, store=store)
    loose = run_of(causes("x1", "x2"), None)
    with pytest.raises(InputError, match="is kept in no store; select again with store="):
        chaffinch.promote(loose)
    (store / "runs" / runs[1].run / "stages" / "write_report.json").unlink()
    with pytest.raises(InputError, match="is not finished"):
        chaffinch.promote(runs[1].run, store=store)
    contract = store / "runs" / runs[0].run / "selection.json"
    changed = json.loads(contract.read_bytes())
    contract.write_text(json.dumps(changed))
    with pytest.raises(StorageError, match=r"selection.json .* has changed since it was written"):
        chaffinch.promote(runs[0].run, store=store)
    assert not (store / "promotions").exists()


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Two runs on rows of two days that keep three, and all four, of the causes of a target."""
    folder, found = tmp_path_factory.mktemp("nights"), []
    for day, n_features in enumerate((3, 4)):
        causes("x1", "x2", "x3", "x4", seed=day).to_csv(folder / "orders.csv", index=False)
        found.append(run_of(folder / "orders.csv", folder / "store", n_features=n_features))
    return found


@pytest.fixture
def store_of_nights(nights, tmp_path):
    shutil.copytree(nights[0].folder.parents[1], tmp_path / "store")
    return tmp_path / "store"


def open_need(run, store):
    """Return why a run needs a decision, as its store tells anyone who asks later."""
    return needed_decision(Store.find(store).existing(run.run))


def test_by_the_gate_the_first_contract_is_for_a_person(nights, store_of_nights):
    first, _ = nights
    asked = chaffinch.promote_by_gate(first.run, store=store_of_nights)
    assert asked.promotion is None
    assert asked.needs_decision.startswith("nothing was promoted yet")
    assert asked.needs_decision in asked.lines[0]
    assert open_need(first, store_of_nights) == asked.needs_decision
    with pytest.raises(InputError, match="nothing was promoted as 'orders'"):
        chaffinch.promotions("orders", store=store_of_nights)
    chaffinch.promote(first.run, store=store_of_nights)
    assert open_need(first, store_of_nights) == ""


def test_by_the_gate_a_better_run_is_promoted_once_and_a_worse_one_never(nights, store_of_nights):
    fewer, more = (run.run for run in nights)

    def by_gate(run):
        asked = chaffinch.promote_by_gate(run, store=store_of_nights)
        assert asked.needs_decision == ""
        return asked

    chaffinch.promote(fewer, store=store_of_nights)
    better = by_gate(more)
    history = chaffinch.promotions("orders", store=store_of_nights)
    assert history[-1] == better.promotion
    assert [(one.run, one.how) for one in history] == [(fewer, "by hand"), (more, "automatic")]
    assert better.lines[0] == f"Promoted as orders: {better.promotion.reason}"
    for asked, why in ((by_gate(more), "the same features"), (by_gate(fewer), "loss is higher")):
        assert asked.promotion is None
        assert asked.lines[0].startswith("The promoted contract of orders stays: ")
        assert why in asked.lines[0]
    assert chaffinch.promotions("orders", store=store_of_nights) == history


def test_by_the_gate_a_better_run_is_for_a_person_after_a_rollback(nights, store_of_nights):
    fewer, more = nights
    for run in (fewer, more):
        chaffinch.promote(run.run, store=store_of_nights)
    chaffinch.rollback("orders", store=store_of_nights)
    asked = chaffinch.promote_by_gate(more.run, store=store_of_nights)
    assert "the last promotion was taken back" in asked.needs_decision
    assert chaffinch.promoted("orders", store=store_of_nights) == fewer.contract


def test_by_the_gate_another_task_is_for_a_person(runs, of_classes, store):
    chaffinch.promote(runs[0].run, store=store)
    asked = chaffinch.promote_by_gate(of_classes.run, store=store)
    assert asked.promotion is None
    assert "is a regression of 'y' but this run a classification" in asked.needs_decision
    assert open_need(of_classes, store) == asked.needs_decision
