"""The feature service of Feast serves the columns of a contract of any name."""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from chaffinch import InputError
from chaffinch.exports import to_feast
from tests.tasks.snapshots import check_sentence
from tests.tasks.synthetic_runs import run_that_keeps

pytestmark = pytest.mark.usefixtures("undrawn")
UNUSUAL = '""" + \'x\'\\\n{x} Größe (m²) # 😀'


@pytest.fixture(scope="module")
def unusual(tmp_path_factory):
    return run_that_keeps(UNUSUAL, tmp_path_factory.mktemp("unusual"))


class View:
    """Selects features by a list, as a feature view of Feast does."""

    def __getitem__(self, columns):
        return SimpleNamespace(columns=columns)


def defined(text, view, monkeypatch):
    """Return the services that a file defines, with the one view that it imports."""
    module, _, name = view.rpartition(".")
    for part in (module, "feast"):
        monkeypatch.setitem(sys.modules, part, ModuleType(part))
    setattr(sys.modules[module], name, View())
    sys.modules["feast"].FeatureService = SimpleNamespace
    names = {}
    exec(compile(text, "orders_features.py", "exec"), names)  # noqa: S102
    return {name: made for name, made in names.items() if isinstance(made, SimpleNamespace)}


def test_the_service_has_the_columns_in_their_order(unusual, monkeypatch):
    text = to_feast(unusual, table="features.orders")
    services = defined(text, "features.orders", monkeypatch)
    assert list(services) == ["orders_v2_features"]
    service = services["orders_v2_features"]
    assert service.name == "orders_v2_features"
    (selected,) = service.features
    assert selected.columns == unusual.contract.columns
    assert service.tags == {
        "run": unusual.run,
        "dataset_hash": unusual.contract["dataset"]["hash"],
        "verdict": unusual.comparison["verdict"],
    }


def test_another_name_and_a_view_named_as_what_the_file_imports(unusual, monkeypatch):
    text = to_feast(unusual, name="sales", table="shop_views.FeatureService")
    (service,) = defined(text, "shop_views.FeatureService", monkeypatch).values()
    assert (service.name, service.features[0].columns) == (
        "sales_features",
        unusual.contract.columns,
    )


def test_the_target_is_not_served_where_features_are_made_of_it(of_days, monkeypatch):
    assert of_days.contract.columns == ["y", "day"]
    text = to_feast(of_days, name="days", table="features.days")
    (service,) = defined(text, "features.days", monkeypatch).values()
    assert service.features[0].columns == ["day"]


def test_text_of_a_contract_is_no_code(unusual, tmp_path, monkeypatch):
    harm = '"""\'\nraise RuntimeError #{0}'
    contract = json.loads((unusual.folder / "selection.json").read_text())
    contract["target"]["name"] = contract["comparison"]["verdict"] = harm
    (tmp_path / "selection.json").write_text(json.dumps(contract))
    text = to_feast(tmp_path / "selection.json", name="orders", table="features.orders")
    (service,) = defined(text, "features.orders", monkeypatch).values()
    assert service.tags["verdict"] == harm
    assert harm in service.description


@pytest.mark.parametrize(
    "names",
    [
        *({"table": table} for table in ("a-b.c", "a.b-c", "a..b")),
        *({"table": table} for table in ("class.b", "a.class", "a.1b")),
        *({"table": table} for table in ("a.b\nimport os", "a.", "..b")),
        {"table": "a.b", "name": "or-ders"},
        {"table": "a.b", "name": "1"},
        {"table": "orders"},
        {"table": ""},
    ],
)
def test_other_names_are_refused(names, unusual):
    with pytest.raises(InputError) as refusal:
        to_feast(unusual, **names)
    check_sentence("refusals/names for feast", repr(names), refusal.value)
    with pytest.raises(InputError, match="has no name of a data set; give one, as in --name"):
        to_feast(unusual.folder / "selection.json", table="features.orders")
