"""Settings: to JSON and back, and one-line errors."""

import json
from copy import deepcopy

import pytest

from gswm.core.errors import UserError
from gswm.core.settings import differing, from_dict, to_dict
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.recipe import Recipe
from gswm.models.registry import RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name: str) -> None:
    recipe = RECIPES[name]()
    assert from_dict(Recipe, json.loads(json.dumps(to_dict(recipe)))) == recipe


def changed(path: str, value: object) -> dict:
    """A recipe's settings with one of them changed; None takes it out."""
    settings = json.loads(json.dumps(to_dict(RECIPES["maze"]())))
    *folders, last = path.split(".")
    inside = settings
    for folder in folders:
        inside = inside[folder]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return settings


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("data.world", None, "lacks setting 'world'"),
        ("train.rate", 1, "has an unknown setting 'rate'"),
        ("train.lr", "fast", "must be float, not 'fast'"),
        ("train.steps", 1.5, "must be int, not 1.5"),
        ("train.steps", True, "must be int, not True"),
        ("model.background", 1, "must be one of 'black', 'static', 'learned'"),
        ("model.propagation.situation", "some", "must be one of 'attend', 'whole', 'off'"),
        ("model.propagation.proposal_range", [0.1], "must have 2 values, not 1"),
        ("model.schedule.lengths", 3, "must be a list, not 3"),
        ("model.schedule.lengths", [[0, 2], [5, "x"]], "lengths[1][1] must be int, not 'x'"),
        ("model.sizes", [1], "must be an object, not [1]"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(path: str, value: object, said: str) -> None:
    with pytest.raises(UserError) as error:
        from_dict(Recipe, changed(path, value), where="recipe")
    message = str(error.value)
    assert said in message
    assert message.startswith("recipe." + ".".join(path.split(".")[:-1]))
    assert "\n" not in message


@pytest.mark.parametrize("path", ["train.start", "train.lr", "model.sizes.glimpse", "seed"])
def test_a_setting_that_came_later_has_its_default(path: str) -> None:
    recipe = from_dict(Recipe, changed(path, None))
    value = recipe
    default = Recipe(recipe.name, recipe.data, GSWMConfig())
    for name in path.split("."):
        value, default = getattr(value, name), getattr(default, name)
    assert value == default


def test_a_whole_number_is_a_float_too_and_none_stands_where_it_may() -> None:
    settings = changed("train.lr", 1)
    recipe = from_dict(Recipe, settings)
    assert recipe.train.lr == 1.0
    assert isinstance(recipe.train.lr, float)
    assert recipe.data.first_frames is None
    settings["data"]["first_frames"] = 30
    assert from_dict(Recipe, settings).data.first_frames == 30


def test_differences_are_found_by_name() -> None:
    ours = to_dict(RECIPES["maze"]())
    theirs = deepcopy(ours)
    assert differing(ours, theirs) == {}
    assert differing(ours, json.loads(json.dumps(ours))) == {}
    theirs["train"]["lr"] = 1.0
    theirs["model"]["schedule"]["lengths"] = [[0, 1]]
    del theirs["seed"]
    got = differing(ours, theirs)
    assert list(got) == ["model.schedule.lengths", "train.lr", "seed"]
    assert got["train.lr"] == (ours["train"]["lr"], 1.0)
