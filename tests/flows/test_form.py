"""The run form that the UI makes of the flow's parameters, read as the UI reads it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from prefect.exceptions import ParameterTypeError

import chaffinch
import chaffinch.flows
from chaffinch.errors import InputError
from chaffinch.methods import Sequential
from chaffinch.storage.sources import source_of
from chaffinch.tasks.settings.method import declared, kinds, method_of, rankings

FLOWS = ("feature_selection", "comparison", "reselection")


@cache
def schema_of(flow: str) -> dict[str, Any]:
    from prefect.utilities.callables import parameter_schema

    module = import_module(f"chaffinch.flows.{flow}")
    return parameter_schema(getattr(module, flow).fn).model_dump()


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return schema_of("feature_selection")


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, definition in schema["definitions"].items():
        for field, details in definition["properties"].items():
            yield f"{name}.{field}", details


@pytest.mark.parametrize(
    ("flow", "required", "others"),
    [
        ("feature_selection", ["data", "settings"], ["execution", "promotion", "limits"]),
        ("reselection", ["former", "data"], ["settings", "execution", "promotion", "limits"]),
    ],
)
def test_a_form_asks_in_this_order(flow, required, others):
    schema = schema_of(flow)
    asked = sorted(schema["properties"], key=lambda name: schema["properties"][name]["position"])
    assert asked == [*required, *others]
    assert schema["required"] == required


def test_promotion_and_limits_are_asked_for_only_if_they_are_wanted(schema):
    for name, settings in (("promotion", "PromotionSettings"), ("limits", "LimitSettings")):
        assert schema["properties"][name]["anyOf"][0] == {"$ref": f"#/definitions/{settings}"}
        assert schema["properties"][name]["default"] is None


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        (2, True),
        ({"number": 2}, True),
        ({"number": 2, "search": "simultaneous", "tau": 0.3}, True),
        (None, True),
        (0, False),
        (1001, False),
        (2.5, False),
        (True, False),
        ("2", False),
        ({}, False),
        ({"number": 0}, False),
        ({"number": 2, "sets": 2}, False),
    ],
)
def test_the_form_takes_a_number_of_alternatives_where_the_flow_does(schema, given, is_taken):
    """The check is the one that Prefect's server makes of a run's parameters before it begins."""
    from prefect.utilities.schema_tools import is_valid_schema, validate

    asked = {"data": "table.csv", "settings": {"target": "price", "alternatives": given}}
    assert is_valid_schema(schema) is None
    assert (validate(asked, schema) == []) == is_taken
    if is_taken:
        chaffinch.feature_selection.validate_parameters(asked)
    else:
        with pytest.raises((InputError, ParameterTypeError)):
            chaffinch.feature_selection.validate_parameters(asked)


def test_alternatives_are_a_form_a_number_or_none_in_this_order(schema):
    choices = schema["definitions"]["SelectionSettings"]["properties"]["alternatives"]["anyOf"]
    form, number, none = choices
    assert form == {"$ref": "#/definitions/AlternativeSettings"}
    of_form = schema["definitions"]["AlternativeSettings"]["properties"]["number"]
    for limit in ("type", "minimum", "maximum"):
        assert number[limit] == of_form[limit]
    assert (number["title"], none) == ("Number", {"type": "null", "title": "None"})


@pytest.mark.parametrize("flow", FLOWS)
def test_every_parameter_has_a_title_a_description_and_a_position(flow):
    schema = schema_of(flow)
    for place, (name, asked) in enumerate(schema["properties"].items()):
        assert asked["position"] == place
        assert asked["title"] != name
        assert asked["title"][0].isupper()
        group = schema["definitions"].get(asked.get("$ref", "").rpartition("/")[2], {})
        assert asked.get("description") or group.get("description"), name


def test_the_first_settings_are_those_that_people_change(schema):
    settings = schema["definitions"]["SelectionSettings"]["properties"]
    assert [*settings][:3] == ["target", "method", "model"]


@pytest.mark.parametrize("flow", FLOWS)
def test_groups_of_settings_have_titles_in_words(flow):
    titles = {name: group["title"] for name, group in schema_of(flow)["definitions"].items()}
    assert not any(title.endswith("Settings") for title in titles.values())
    assert titles.get("LimitSettings", "Limit settings") == "Limit settings"


@pytest.mark.parametrize("flow", FLOWS)
def test_what_can_be_chosen_between_is_named_in_words(flow):
    for name, details in fields(schema_of(flow)):
        for choice in details.get("anyOf", ()):
            assert "$ref" in choice or choice["title"][0].isupper(), name


@pytest.mark.parametrize(
    ("data", "is_taken"),
    [
        ("table.csv", True),
        ("/srv/a:b@c.csv", True),
        ("s3://shop/orders.parquet", True),
        ("postgresql://me@host:5432/shop#orders", True),
        ("postgresql://host:5432/shop#SELECT * FROM orders WHERE mail LIKE '%@x'\n", True),
        ("postgresql://me:hidden@host/shop#orders", False),
        ("s3://KEY:hid/den@shop/orders.csv", False),
        ("postgresql://me@h/shop?sslmode=require&password_from=SHOP_PASSWORD#orders", True),
        ("postgresql://h/shop#SELECT token=1 AS a, x::text FROM t WHERE y = ' password='", True),
        ("tokens/password.csv", True),
        ("/lake/day=3/my orders.parquet", True),
        ("postgresql://me@h/shop?password=hidden#orders", False),
        ("postgresql://me@h/shop?sslmode=require&SSLPassword=hidden#orders", False),
        (" postgresql://me:hidden@host/shop#orders", False),
        ("jdbc:postgresql://host/shop?user=me&password=hidden", False),
        ("jdbc:postgresql://me:hidden@host/shop", False),
        ("//me:hidden@host/shop#orders", False),
        (":///me:hidden@host/shop#orders", False),
        ("postgresql:me:hidden@host/shop#orders", False),
        ("host=h password=hidden dbname=shop", False),
        ("password=hidden host=h", False),
    ],
)
def test_the_form_takes_no_password(schema, data, is_taken):
    assert bool(re.search(schema["properties"]["data"]["pattern"], data)) == is_taken
    if is_taken:
        assert source_of(data).address is not None
    else:
        with pytest.raises(InputError, match="source holds a password") as said:
            source_of(data)
        assert "hid" not in str(said.value)


@pytest.mark.parametrize(
    ("flow", "name", "named"),
    [
        ("feature_selection", "data", "orders.csv"),
        ("comparison", "data", ["orders.csv"]),
        ("reselection", "data", " orders.csv"),
        ("reselection", "former", "orders-gbmo-linear-0123456789"),
    ],
)
def test_the_form_takes_no_empty_text_for_what_must_be_named(flow, name, named):
    from prefect.utilities.schema_tools import validate

    asked = {"type": "object", "properties": {name: schema_of(flow)["properties"][name]}}
    assert validate({name: named}, asked) == []
    for empty in ("", " \n"):
        assert validate({name: [empty] if isinstance(named, list) else empty}, asked)


def test_the_form_takes_no_empty_text_for_the_store(schema):
    from prefect.utilities.schema_tools import validate

    store = schema["definitions"]["ExecutionSettings"]["properties"]["store"]
    asked = {"type": "object", "properties": {"store": store}}
    assert store["default"] == "chaffinch-store"
    refused = {given: bool(validate({"store": given}, asked)) for given in ("", " ", ".", "a b")}
    assert refused == {"": True, " ": True, ".": False, "a b": False}


@pytest.mark.parametrize("flow", FLOWS)
def test_every_field_has_a_title_a_description_and_a_position(flow):
    of_flow = list(fields(schema_of(flow)))
    assert len(of_flow) > 5
    lacking = [
        (field, word)
        for field, details in of_flow
        for word in ("title", "description", "position")
        if details.get(word) in (None, "")
    ]
    assert lacking == []


@pytest.mark.parametrize("flow", FLOWS)
def test_positions_count_up_from_0_in_every_group(flow):
    for definition in schema_of(flow)["definitions"].values():
        positions = [field["position"] for field in definition["properties"].values()]
        assert positions == list(range(len(positions)))


def test_the_method_is_a_toggle_of_forms(schema):
    method = schema["definitions"]["SelectionSettings"]["properties"]["method"]
    forms = [choice["$ref"].removeprefix("#/definitions/") for choice in method["anyOf"]]
    titles = [schema["definitions"][form]["title"] for form in forms]
    assert sorted(titles) == sorted(method.model_config["title"] for method in METHODS)
    directions = schema["definitions"]["Sequential"]["properties"]["kind"]
    assert directions["enum"] == ["sequential_forward", "sequential_backward"]
    kind = schema["definitions"]["Ranking"]["properties"]["kind"]
    assert [*kind["enum"], "dfs"] == list(rankings())
    described = (
        kind["description"] + schema["definitions"]["Dfs"]["properties"]["kind"]["description"]
    )
    assert all(f"{name}: {declared(name).traits.score}" in described for name in rankings())


def shown_by_the_ui(schema: dict[str, Any], choices: list[Any], value: dict[str, Any]) -> Any:
    """Return which of several forms the UI shows for a value, and what that sends unchanged."""
    forms = [schema["definitions"][choice["$ref"].rpartition("/")[2]] for choice in choices]
    # the first of those that share most settings by name, whatever is in them
    shown = max(forms, key=lambda form: len(set(form["properties"]) & set(value)))
    defaults = {
        name: field["default"] for name, field in shown["properties"].items() if "default" in field
    }
    return shown["title"], defaults | value


METHODS = list(dict.fromkeys(type(method_of(kind)) for kind in kinds()))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_a_method_that_is_served_comes_back_from_the_form_as_it_was(schema, method):
    served = method()
    choices = schema["definitions"]["SelectionSettings"]["properties"]["method"]["anyOf"]
    title, sent = shown_by_the_ui(schema, choices, served.model_dump(mode="json"))
    assert method_of(sent) == served
    # which has the same settings by name
    assert title == ("FLBMO" if method is Sequential else method.model_config["title"])


def test_a_number_or_a_share_of_features_is_one_field(schema):
    from prefect.utilities.schema_tools import is_valid_schema, validate

    sizes = schema["definitions"]["Flbmo"]["properties"]["n_features"]
    assert sizes["items"]["type"] == "number"
    one = {"type": "object", "properties": {"n_features": sizes}}
    assert is_valid_schema(one) is None
    refused = {
        size: bool(validate({"n_features": [size]}, one)) for size in (1, 5, 0.5, 0, 1.5, -1)
    }
    assert refused == {1: False, 5: False, 0.5: False, 0: True, 1.5: True, -1: True}


def test_nothing_is_a_discriminated_union_which_the_ui_shows_as_raw_json(schema):
    assert "discriminator" not in str(schema)
    assert "oneOf" not in str(schema)


def test_no_flow_module_postpones_its_annotations():
    modules = list(Path(chaffinch.flows.__path__[0]).rglob("*.py"))
    assert len(modules) > 5
    for module in modules:
        nodes = ast.walk(ast.parse(module.read_text()))
        imported_from = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
        assert "__future__" not in imported_from, module.name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"^feature_selection: missing a required argument: 'settings'; see its parameters$"),
        ({"foo": 1}, r"^feature_selection: .*'(settings|foo)'"),
    ],
)
def test_a_flow_that_lacks_a_parameter_or_has_an_unknown_one_says_so_in_a_line(given, message):
    with pytest.raises(InputError, match=message):
        chaffinch.feature_selection("orders.csv", **given)
