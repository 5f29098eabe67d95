"""The model card and config.json of a repository on a model hub."""

import json
import math
from pathlib import Path
from typing import Any

from gswm.core.settings import to_dict
from gswm.core.words import in_bytes, model_name, printable, score
from gswm.data.worlds.registry import WORLDS
from gswm.models.base import WorldModel
from gswm.models.recipe import Recipe
from gswm.weights.encoding import Encoding
from gswm.weights.files import trained_before
from gswm.weights.finding import ANY_VIDEO

TAGS = ("world-model", "object-centric", "video-prediction", "unsupervised-learning")
BITS = {
    "float32": "32 bits",
    "float16": "16 bits",
    "int8": "8 bits (the networks that see or draw frames, with a scale for each row) and 16 bits",
    "int3": "3 bits (the networks that encode the background), 8 bits (the others that see or draw "
    "frames; with a scale for each row) and 16 bits",
}
UNKNOWN = "not recorded"


def config(header: dict[str, Any], how: Encoding, version: str) -> str:
    """The content of config.json: settings and all known facts about the weights."""
    known = {"library": "gswm", "gswm": version, "encoding": how}
    known |= {"recipe": to_dict(header["recipe"]), "about": header["about"]}
    return json.dumps(known, indent=1) + "\n"


def card(
    header: dict[str, Any], model: WorldModel[Any], how: Encoding, size: int, license_id: str
) -> str:
    """The model card in Markdown; `size` is that of the weights file in bytes."""
    recipe: Recipe = header["recipe"]
    name = printable(recipe.name)
    kind = model_name(type(model).__name__)
    article = "An" if kind[0] in "AEIOU" else "A"
    lead = (
        f"{article} {kind} world model of video: it detects and tracks objects, and imagines their "
        f"future. Trained on `{world_of(header)}` without labels."
    )
    if recipe.model.takes_labels:
        lead = lead.replace("without labels", "with the true boxes of its objects")
    parts = [
        f"---\n{front_matter(header, license_id)}---\n\n# {name}\n\n{lead}",
        f"## Use\n\n{use(header)}",
        f"## Scores\n\n{scores(header)}",
        f"## Training\n\n{training(header)}",
        f"## Limits\n\n{limits(header, model)}",
        f"## Files\n\n`model.safetensors` has {in_bytes(size)}: its tensors are stored in "
        f"{BITS[how]}. Its header contains the recipe and a checksum. `config.json` has "
        "the recipe and facts about the training, readable without `gswm`.",
        f"## License\n\n{license_id}. The code, `gswm`, is under Apache-2.0.",
    ]
    return "\n\n".join(parts) + "\n"


def front_matter(header: dict[str, Any], license_id: str) -> str:
    """The metadata of a model card: YAML with JSON values."""
    recipe: Recipe = header["recipe"]
    lines = [f"license: {json.dumps(license_id)}", "library_name: gswm", "tags:"]
    lines += [f"- {tag}" for tag in (*TAGS, recipe.model.kind)]
    found = known_scores(header)
    if found:
        world = header["about"].get("measured", {}).get("world") or world_of(header)
        data = {"type": world, "name": world, "split": "test"}
        metrics = [{"type": name, "value": value} for name, value in found.items()]
        result = {"task": {"type": "video-prediction"}, "dataset": data, "metrics": metrics}
        index = [{"name": recipe.name, "results": [result]}]
        lines.append(f"model-index: {json.dumps(index)}")
    return "\n".join(lines) + "\n"


def world_of(header: dict[str, Any]) -> str:
    """The world that a model was trained on; for a file, its name without the folder."""
    return printable(Path(header["recipe"].data.world).name)


def use(header: dict[str, Any]) -> str:
    """The code that loads the model, and applies it to a video of its world, or of the user."""
    recipe: Recipe = header["recipe"]
    world, given = recipe.data.world, recipe.data.given
    shown = [
        f'episodes = next(gswm.world("{world}").episodes(seed=1, n=1))',
        "video = episodes.video",
    ]
    if world not in WORLDS or world == ANY_VIDEO:
        shown = ['video = gswm.read_video("film.mp4", model.image_size)']
    code = [
        *("import gswm", ""),
        f'model = gswm.load("hf://OWNER/{printable(recipe.name)}")',
        *shown,
        "track = model.infer(video)",
        f"future = model.imagine(video, given={given}, steps=10, futures=4)",
        'future.save("futures.gif", video)',
    ]
    needs = ["hub", WORLDS[world].extra if world in WORLDS else ""]
    extras = ",".join(filter(None, needs))
    command = f"    pip install -c constraints.txt -e '.[{extras}]'"
    return (
        f"In a clone of the repository of `gswm`:\n\n{command}\n\n```python\n"
        + "\n".join(code)
        + "\n```"
    )


def known_scores(header: dict[str, Any]) -> dict[str, float]:
    """The scores on test episodes that are numbers."""
    found = header["about"].get("test", {})
    return {name: x for name, x in found.items() if x is not None and math.isfinite(x)}


def scores(header: dict[str, Any]) -> str:
    """The scores, the number of episodes, and the seeds."""
    about, found = header["about"], known_scores(header)
    if not found:
        return "These weights have not been evaluated on a test set."
    measured = about.get("measured", {})
    n, seed = measured.get("episodes", UNKNOWN), about.get("seed", UNKNOWN)
    world = measured.get("world") or world_of(header)
    head = [
        f"- test episodes (n): {n}{partial(n, world)}",
        f"- training seed: {seed} (a single run; the variation over seeds is unknown)",
        f"- evaluation seed: {measured.get('seed', UNKNOWN)}",
        f"- protocol: {measured.get('protocol', UNKNOWN)}",
        f"- command: {in_code(measured.get('command'))}",
    ]
    rows = [f"| {name} | {score(name, value)} |" for name, value in found.items()]
    where = (
        "`docs/metrics.md` in the repository of `gswm` defines the scores. Lengths are in sides of "
        "the frame; integers are counts over all test episodes."
    )
    return "\n".join([*head, "", where, "", "| score | value |", "|---|---|", *rows])


def partial(n: Any, world: str) -> str:
    """A remark on whether all test episodes of the world were evaluated."""
    if world not in WORLDS or not isinstance(n, int):
        return ""
    there = WORLDS[world].splits["test"].episodes
    return f" of {there}: preliminary" if n < there else f", all of `{world}`"


def training(header: dict[str, Any]) -> str:
    """The commands that trained the weights, and their cost."""
    about, recipe = header["about"], header["recipe"]
    minutes = about.get("minutes")
    runs = trained_before(header)
    world, name = recipe.data.world, Path(recipe.data.world).name
    lines = [f"    {printable(str(run['command']).replace(world, name))}" for run in runs]
    if len(runs) > 1:
        lines.append("")
        lines.append("Each run continues the previous one, RUN.")
    cost = UNKNOWN if minutes is None else f"{minutes:.1f} minutes"
    steps = about.get("step", UNKNOWN)
    told = [
        f"- cost: {cost}, {steps} steps of {recipe.train.batch} videos",
        f"- device: {printable(str(about.get('device') or UNKNOWN))}",
        f"- seed: {about.get('seed', recipe.seed)}",
        f"- version of the code: {printable(str(about.get('commit') or UNKNOWN))}",
    ]
    return "\n".join([*lines, "", *told])


def limits(header: dict[str, Any], model: WorldModel[Any]) -> str:
    """The limitations that follow from a model's settings."""
    recipe: Recipe = header["recipe"]
    cfg, world = recipe.model, world_of(header)
    found = [
        f"The model is meant for videos like those of `{world}`. In other videos it may miss "
        "objects, or detect some that do not exist.",
        f"Frames have {cfg.image_size} × {cfg.image_size} pixels and at most {cfg.num_objects} "
        "objects.",
    ]
    if cfg.takes_background:
        found.append("The camera must be fixed: the background is a single picture.")
    elif cfg.has_background or model.boxes_from == "masks":
        found.append("Imagined backgrounds are like those of the training videos.")
    else:
        found.append("The background must be black.")
    if model.num_actions:
        found.append(f"The model needs actions of {model.num_actions} numbers for each frame.")
    found.append(
        "Imagined futures are samples. Errors accumulate after a wrongly predicted collision."
    )
    return "\n".join(f"- {line}" for line in found)


def in_code(command: Any) -> str:
    """A command in Markdown."""
    return UNKNOWN if command is None else f"`{printable(str(command)).replace('`', '')}`"
