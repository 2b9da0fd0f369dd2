"""The report's charts and words: drawn the same everywhere, readable at every size."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from chaffinch.tasks.reporting.charts import elimination_chart, highest_shown, interval_chart
from chaffinch.tasks.reporting.wording import NOTHING, flattened, number, plain, share


def test_another_process_gives_the_same_bytes() -> None:
    # the hash seed differs, and with it the order of sets
    code = "import sys; from chaffinch.tasks.reporting.charts import interval_chart as c; "
    code += "sys.stdout.write(c(-0.01, (-0.02, 0.01), 0.95))"
    drawn = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert drawn.stdout.decode() == interval_chart(-0.01, (-0.02, 0.01), 0.95)


def test_the_user_s_own_matplotlib_style_changes_nothing() -> None:
    from matplotlib import rc_context

    drawn = interval_chart(-0.01, (-0.02, 0.01), 0.95)
    with rc_context({"font.size": 30, "svg.fonttype": "path"}):
        assert interval_chart(-0.01, (-0.02, 0.01), 0.95) == drawn


def test_a_steep_end_of_the_curve_does_not_flatten_the_rest() -> None:
    losses = np.array([1.0, 0.9, 1.1, 50.0])
    assert highest_shown(losses, [1.0, 0.9]) == pytest.approx(0.9 + 4 * 0.1)
    assert highest_shown(losses[:3], [1.0, 0.9]) is None
    assert highest_shown(np.array([-0.9, -0.95, -0.5]), [-0.9]) == pytest.approx(-0.75)
    assert highest_shown(np.array([1.0, 1.0]), [1.0]) is None
    assert highest_shown(np.array([np.nan, np.inf]), [np.inf]) is None
    drawn = elimination_chart(
        [4, 3, 2, 1], [float(x) for x in losses], candidates=[3], chosen=3, loss_name="log loss"
    )
    assert "up to 50" in drawn


@pytest.mark.parametrize("n", [2, 5, 100, 101, 5000])
def test_the_size_axis_is_ticked_in_whole_features(n: int) -> None:
    sizes = list(range(n, 0, -1))
    drawn = elimination_chart(
        sizes, [1.0 + 1 / s for s in sizes], candidates=[n, 1], chosen=n, loss_name="squared error"
    )
    ticks = re.findall(r"<text[^>]*>([^<]*)</text>", drawn.partition(">features left")[0])
    whole = [int(tick.replace(",", "")) for tick in ticks]
    assert all(1 <= tick <= n for tick in whole)
    assert min(n, 3) <= len(set(whole)) == len(whole) <= 14
    assert ("logarithmic" in drawn) == (n > 100)


def test_a_narrow_range_of_many_features_is_ticked_as_well() -> None:
    sizes = list(range(190, 110, -1))
    drawn = elimination_chart(
        sizes, [1.0] * 80, candidates=[120], chosen=120, loss_name="squared error"
    )
    ticks = re.findall(r"<text[^>]*>(1[1-9][0-9])</text>", drawn.partition(">features left")[0])
    assert len(ticks) >= 4
    assert "logarithmic" not in drawn


@pytest.mark.parametrize("ends", [(0.0, 0.0), (-1e-12, 1e-12), (-5e6, 2e7)])
def test_an_interval_of_any_width_is_drawn(ends: tuple[float, float]) -> None:
    drawn = interval_chart(sum(ends) / 2, ends, 0.9)
    assert "90% interval" in drawn
    assert ">0</text>" in drawn


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NOTHING),
        (0, "0"),
        (0.0, "0"),
        (12, "12"),
        (1234567, "1,234,567"),
        (0.123456, "0.1235"),
        (-0.00001234567, "-1.235e-05"),
        (999.94, "999.9"),
        (999.96, "1,000"),
        (98765.4321, "98,765"),
        (1.5e20, "1.5e+20"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_have_four_digits_and_thousands_separated(value: float | None, text: str) -> None:
    assert number(value) == text


def test_settings_are_flattened_into_dotted_names() -> None:
    nested = {"a": {"b": {"c": (1, 2.5)}, "empty": {}}, "d": None, "e": True, "f": []}
    assert dict(flattened(nested)) == {
        "a.b.c": "1, 2.5",
        "a.empty": "none",
        "d": NOTHING,
        "e": "yes",
        "f": "none",
    }


def test_long_lists_are_cut_and_shares_are_per_cent() -> None:
    assert plain([str(i) for i in range(1031)]).endswith("28, 29 and 1,001 more")
    assert share(1 / 6) == "16.67 %"
    assert share(0.07) == "7 %"
