"""What the terminal says of alternatives."""

import numpy as np
import pandas as pd

import chaffinch
from chaffinch import AlternativeSettings, ModelSettings
from chaffinch.flows.terminal import show


def test_a_chosen_set_that_the_quality_does_not_allow_is_told(capsys) -> None:
    random = np.random.default_rng(0)
    causes = random.normal(size=(300, 2))
    copies = causes + 0.1 * random.normal(size=(300, 2))
    table = pd.DataFrame(np.hstack([causes, copies]), columns=["a", "b", "a2", "b2"])
    table["y"] = causes.sum(axis=1) + 0.1 * random.normal(size=300)
    result = chaffinch.select(
        table,
        "y",
        method="correlation",
        n_features=3,
        model=ModelSettings(name="linear", tuning="none"),
        alternatives=AlternativeSettings(number=1, quality="fcbf"),
    )
    show(result, as_json=False)
    said = capsys.readouterr().out
    assert (
        "0 alternatives, tau 0.5, by fcbf; 1 were asked for, but no other possible set of 3 "
        "features is free of redundant pairs, which fcbf asks for.\n  Fewer chosen features makes "
        "room.\n  By fcbf the chosen set has no quality: one of its features makes another "
        "redundant, which it allows in no set.\n"
    ) in said
