"""What tuning tries."""

import pytest

from chaffinch import ModelSettings, SelectionSettings
from chaffinch.tasks.methods.fitting import recipe_of, tuning_candidates
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.selection.models import parameter_grid

SCHEMA = Schema(("a",), (0,))


def tried(tuning, seed=0, **parameters):
    model = ModelSettings(tuning=tuning, parameters=parameters)
    settings = SelectionSettings(target="y", model=model, seed=seed)
    return tuning_candidates(recipe_of(settings), settings, SCHEMA, 1000)


@pytest.mark.parametrize("tuning", ["paper:bmo", "paper:afs-bm"])
def test_the_grid_of_a_paper_is_tried_whole(tuning):
    assert tried(tuning) == parameter_grid("lightgbm", tuning, "regression", 1000)


def test_by_the_name_paper_twenty_of_it_are_drawn_by_the_seed():
    whole = tried("paper:bmo")
    drawn = tried("paper")
    assert len(drawn) == 20
    assert drawn == [candidate for candidate in whole if candidate in drawn]
    assert tried("paper") == drawn != tried("paper", seed=1)


def test_what_is_fixed_is_not_tried():
    few = tried("paper:bmo", num_leaves=31, learning_rate=0.1)
    assert len(few) == 16
    assert all(not {"num_leaves", "learning_rate"} & candidate.keys() for candidate in few)
