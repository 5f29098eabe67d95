"""Models and recipes by name.

A model is one package: its settings, its class and its recipes, in a `ModelEntry`. The package's
own are listed in `BUILT_IN`. Others are added by `register`, or by a Python entry point of the
group `gswm.models` whose value is a `ModelEntry`:

    [project.entry-points."gswm.models"]
    mine = "my_package:MODEL"
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint
from typing import Any

from gswm.core.errors import UserError
from gswm.core.plugins import Once, load_plug_ins
from gswm.core.settings import round_trips
from gswm.core.words import no_such, with_article
from gswm.models.base import ModelConfig, WorldModel
from gswm.models.recipe import Recipe

GROUP = "gswm.models"
BUILT_IN = {
    "gswm": "gswm.models.gswm.recipes:MODEL",
    "op3": "gswm.models.op3.recipes:MODEL",
    "scalor": "gswm.models.scalor.recipes:MODEL",
    "silot": "gswm.models.silot.recipes:MODEL",
    "sqair": "gswm.models.sqair.recipes:MODEL",
    "stove": "gswm.models.stove.recipes:MODEL",
}
WITHOUT_KIND = ("gswm", "scalor", "stove")
"""Models of version 0.1.0, whose files do not contain a kind."""


@dataclass(frozen=True)
class ModelEntry:
    """The registration of a model."""

    config: type[ModelConfig]
    """The class of its settings; `config.kind` is the name of the model."""
    model: Callable[[Any], WorldModel[Any]]
    """The model class, called with the settings."""
    recipes: tuple[Callable[[], Recipe], ...] = ()
    """Functions without arguments that return recipes; recipes are known by their names."""

    @property
    def kind(self) -> str:
        """The model's name."""
        return self.config.kind


class Registry:
    """All registered models; entry points are loaded when one is first looked up."""

    def __init__(self) -> None:
        self.entries: dict[str, ModelEntry] = {}
        self.recipes: dict[str, Callable[[], Recipe]] = {}
        self.load = Once(self.load_all)

    def add(self, entry: Any) -> None:
        """Add a model and its recipes; a new definition, as in a notebook, replaces the old one."""
        if not isinstance(entry, ModelEntry):
            raise UserError(f"register a ModelEntry, not {type(entry).__name__}")
        if not entry.kind:
            raise UserError(f"{entry.config.__name__} has no name: set its class attribute `kind`")
        before = self.entries.get(entry.kind)
        if before is not None and source(before) != source(entry):
            raise UserError(
                f"model '{entry.kind}' is already registered by {source(before)}: "
                f"choose another `kind` for {source(entry)}"
            )
        made = {checked(make, entry).name: make for make in entry.recipes}
        owned = {make().name for make in before.recipes} if before else set()
        if taken := sorted((made.keys() & self.recipes.keys()) - owned):
            raise UserError(f"recipe '{taken[0]}' already exists: choose another name")
        for name in owned:
            del self.recipes[name]
        self.entries[entry.kind] = entry
        self.recipes |= made

    def load_all(self) -> None:
        """Load the package's own models, then those of installed packages."""
        for name, value in BUILT_IN.items():
            self.add(EntryPoint(name, value, GROUP).load())
        load_plug_ins(GROUP, "model", self.add)


REGISTRY = Registry()


class Recipes(Mapping[str, Callable[[], Recipe]]):
    """The recipes of all registered models: functions by name."""

    def __getitem__(self, name: str) -> Callable[[], Recipe]:
        REGISTRY.load()
        return REGISTRY.recipes[name]

    def __iter__(self) -> Iterator[str]:
        REGISTRY.load()
        return iter(REGISTRY.recipes)

    def __len__(self) -> int:
        REGISTRY.load()
        return len(REGISTRY.recipes)


RECIPES = Recipes()


def register(entry: ModelEntry) -> None:
    """Register a model: its recipes for all commands, and its kind for `gswm.load`."""
    REGISTRY.load()
    REGISTRY.add(entry)


def entry_of(kind: str) -> ModelEntry:
    """Return the entry of a model by name."""
    REGISTRY.load()
    if kind not in REGISTRY.entries:
        known = ", ".join(REGISTRY.entries)
        raise UserError(
            f"there is no model '{kind}'; choose from {known}, or install or register the package "
            f"that has it"
        )
    return REGISTRY.entries[kind]


def config_class(values: Mapping[str, Any]) -> type[ModelConfig]:
    """The class of saved settings, found by their `kind`, or else by their field names."""
    if "kind" in values:
        return entry_of(str(values["kind"])).config
    known = [entry_of(kind).config for kind in WITHOUT_KIND]

    def misfit(config: type[ModelConfig]) -> tuple[int, int]:
        names = {f.name for f in fields(config)}
        return len(values.keys() - names), len(names - values.keys())  # new fields have defaults

    return min(known, key=misfit)


def recipe(name: str) -> Recipe:
    """Return a recipe by name."""
    if name not in RECIPES:
        raise UserError(no_such("recipe", name, RECIPES))
    return RECIPES[name]()


def build(what: str | Recipe) -> WorldModel[ModelConfig]:
    """Build the untrained model of a recipe, in evaluation mode."""
    chosen = recipe(what) if isinstance(what, str) else what
    if not isinstance(chosen, Recipe):
        kind = with_article(type(chosen).__name__)
        raise UserError(f"gswm.build expects a recipe or the name of one, not {kind}")
    model = entry_of(chosen.model.kind).model(chosen.model)
    model.recipe = chosen
    return model.eval()


def checked(make: Callable[[], Recipe], entry: ModelEntry) -> Recipe:
    """A recipe from its function; raises a UserError unless it survives saving and reading."""
    made = make() if callable(make) else make
    if not isinstance(made, Recipe) or not isinstance(made.model, entry.config):
        raise UserError(
            f"a recipe of '{entry.kind}' must be a function that returns a Recipe with settings of "
            f"{entry.config.__name__}; {make!r} is not"
        )
    try:
        same = round_trips(made.model)
    except (UserError, TypeError) as error:
        raise UserError(f"the settings of '{made.name}' cannot be saved: {error}") from error
    if not same:
        raise UserError(f"the settings of '{made.name}' change when they are saved and loaded")
    return made


def source(entry: ModelEntry) -> str:
    """The module in which a model is defined."""
    return f"{entry.config.__module__}.{entry.config.__qualname__}"
