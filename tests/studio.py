"""A studio with a small untrained model, for the tests."""

import json
import time
from functools import cache
from typing import Any

import numpy as np
import tiny
import torch

from gswm.data.episode import Episodes
from gswm.models.gswm.gswm import GSWM
from gswm.studio.catalog import Catalog
from gswm.studio.protocol import decode, parse
from gswm.studio.session import Session

Heard = list[tuple[dict[str, Any], dict[str, np.ndarray]]]


def model(recipe: str = "interaction") -> GSWM:
    """Sees three objects in every frame, and loses none."""
    made = tiny.build(tiny.config(recipe, num_objects=4)).eval()
    with torch.no_grad():
        for presence in ("discovery.mlp_disc", "propagation.latent.mlp_att"):
            made.get_parameter(f"{presence}.4.bias")[0] = 9.0
    return made


@cache
def catalog(recipe: str = "interaction") -> Catalog:
    """The same one for all who ask: a model takes a while to make."""
    made = Catalog()
    video = (255 * tiny.video(batch=1, time=8)).to(torch.uint8)
    made.add_model("small", model(recipe), "noise", 4)
    made.add_source("noise", lambda index: Episodes(video))
    return made


class Page:
    """A page's side of the protocol, without a browser."""

    def __init__(self, shelf: Catalog | None = None) -> None:
        self.heard: Heard = []
        self.session = Session(shelf or catalog(), lambda data: self.heard.append(decode(data)))

    def say(self, **message: Any) -> None:
        self.session.put(parse(json.dumps(message)))

    def work(self, steps: int = 500) -> "Page":
        """Until all is done."""
        for _ in range(steps):
            while (self.session.jobs or self.session.waiting) and not self.session.busy:
                time.sleep(0.01)  # something is made elsewhere
            if not self.session.busy:
                return self
            self.session.step()
        raise AssertionError("there is no end to it")

    def open(self, **more: Any) -> "Page":
        settings = {"given": 4, "steps": 6, "futures": 2, **more.pop("settings", {})}
        what = {"model": "small", "world": "noise", **more}
        self.say(type="open", settings=settings, **what)
        return self.work()

    def edit(self, change: dict[str, Any], frame: int = 3, **more: Any) -> "Page":
        self.say(type="edit", branch=more.pop("branch", 0), frame=frame, change=change, **more)
        return self.work()

    def of(self, kind: str) -> Heard:
        return [(head, arrays) for head, arrays in self.heard if head["type"] == kind]

    def futures(self, branch: int) -> np.ndarray:
        """The objects of a branch's futures, as the page last heard them."""
        parts: list[np.ndarray] = []
        for head, arrays in self.of("futures"):
            if head["branch"] == branch:
                first = head["at"] == self.session.desk.branches[branch].frame + 1
                parts = [arrays["objects"]] if first else [*parts, arrays["objects"]]
        return np.concatenate(parts, axis=1)

    def ids(self) -> list[int]:
        objects = self.session.desk.branches[0].moments[-1].objects[0]
        return [int(row[6]) for row in objects if row[5] > 0.5]
