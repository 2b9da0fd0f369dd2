"""The images that a flow leaves on a real server, drawn."""

import base64
import re

import pytest

import chaffinch
from chaffinch.tasks.settings.alternatives import AlternativeSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings


@pytest.fixture(scope="module")
def undrawn():
    """Draw the charts."""


def image_in(artifact):
    kind, coded = artifact["data"].removesuffix(")").split(",")
    assert re.fullmatch(r"!\[[a-z ]+\]\(data:image/svg\+xml;base64", kind)
    return base64.b64decode(coded).decode()


def test_the_curve_and_what_the_sets_share_are_images_that_need_no_network(
    server, table, small, tmp_path
):
    noise = chaffinch.select(
        table, "yield", method="anova_f", model="linear", n_features=2, keep=["noise_a"],
        store=tmp_path,
    )  # fmt: skip
    assert set(noise.features) == {"first", "noise_a"}
    chaffinch.promote(noise, store=tmp_path)
    asked = SelectionSettings(**small, alternatives=AlternativeSettings(number=1))
    execution = ExecutionSettings(store=tmp_path, cluster="none")
    state = chaffinch.feature_selection(str(table), asked, execution, return_state=True)
    (other,) = state.result().alternatives["sets"]
    artifacts = server.artifacts(str(state.state_details.flow_run_id))
    curve = artifacts["harvest-elimination-curve"]
    assert curve["type"] == "markdown"  # the UI prints the whole URL of an image artifact
    assert "<svg" in image_in(curve)
    assert "features left" in image_in(curve)
    said = re.findall(r"<text[^>]*>([^<]*)</text>", image_in(artifacts["harvest-set-overlap"]))
    rows = ("chosen, 2 features", "promoted, 2 features", "alternative 1, 2 features")
    assert set(said) >= {*rows, "first", "second", "noise_a", *other["features"]}
