"""The run form that the UI makes of the flow's parameters, read as the UI reads it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chaffinch
import chaffinch.flows
from chaffinch.tasks.selection.rivals.names import SCORES


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    from prefect.utilities.callables import parameter_schema

    return parameter_schema(chaffinch.feature_selection.fn).model_dump()


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, definition in schema["definitions"].items():
        for field, details in definition["properties"].items():
            yield f"{name}.{field}", details


def test_the_form_asks_for_data_settings_execution_promotion_and_limits_in_this_order(schema):
    asked = sorted(schema["properties"], key=lambda name: schema["properties"][name]["position"])
    assert asked == ["data", "settings", "execution", "promotion", "limits"]
    assert schema["required"] == ["data", "settings"]
    assert "Parquet" in schema["properties"]["data"]["description"]
    for name, settings in (("promotion", "PromotionSettings"), ("limits", "LimitSettings")):
        assert schema["properties"][name]["anyOf"][0] == {"$ref": f"#/definitions/{settings}"}
        assert schema["properties"][name]["default"] is None


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
    ],
)
def test_the_form_takes_no_password(schema, data, is_taken):
    assert bool(re.search(schema["properties"]["data"]["pattern"], data)) == is_taken


def test_every_field_has_a_title_a_description_and_a_position(schema):
    assert len(list(fields(schema))) > 25
    lacking = [
        (field, word)
        for field, details in fields(schema)
        for word in ("title", "description", "position")
        if details.get(word) in (None, "")
    ]
    assert lacking == []


def test_positions_count_up_from_0_in_every_group(schema):
    for definition in schema["definitions"].values():
        positions = [field["position"] for field in definition["properties"].values()]
        assert positions == list(range(len(positions)))


def test_the_method_is_a_toggle_of_forms(schema):
    method = schema["definitions"]["SelectionSettings"]["properties"]["method"]
    forms = [choice["$ref"].removeprefix("#/definitions/") for choice in method["anyOf"]]
    assert [schema["definitions"][form]["title"] for form in forms] == [
        "GBMO",
        "FLBMO",
        "AFS-BM",
        "Ranking",
        "DFS",
        "RFE",
        "RFECV",
        "Robust elimination",
        "Sequential",
        "Particle swarm",
        "PEFS",
        "Reselection",
    ]
    kinds = schema["definitions"]["Sequential"]["properties"]["kind"]
    assert kinds["enum"] == ["sequential_forward", "sequential_backward"]
    kind = schema["definitions"]["Ranking"]["properties"]["kind"]
    assert [*kind["enum"], "dfs"] == list(SCORES)
    described = (
        kind["description"] + schema["definitions"]["Dfs"]["properties"]["kind"]["description"]
    )
    assert all(f"{name}: {score}" in described for name, score in SCORES.items())


def test_a_baseline_is_a_word_or_values_by_feature(schema):
    baseline = schema["definitions"]["SelectionSettings"]["properties"]["baseline"]
    word, values = baseline["anyOf"]
    assert word["enum"] == ["mean", "median", "zero"]
    assert values["description"] == "Values by feature; the other features get their mean."


def test_nothing_is_a_discriminated_union_which_the_ui_shows_as_raw_json(schema):
    assert "discriminator" not in str(schema)
    assert "oneOf" not in str(schema)


def test_no_flow_module_postpones_its_annotations():
    modules = list(Path(chaffinch.flows.__path__[0]).glob("*.py"))
    assert len(modules) > 5
    for module in modules:
        nodes = ast.walk(ast.parse(module.read_text()))
        imported_from = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
        assert "__future__" not in imported_from, module.name
