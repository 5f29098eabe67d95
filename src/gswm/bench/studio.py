"""Response times of the studio over its WebSocket: from an edit to the first and last frame.

Each figure is the median of several edits at different positions, with all objects of the episode.
"""

import json
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from gswm.bench.train import machine
from gswm.core.errors import UserError
from gswm.studio.catalog import Catalog
from gswm.studio.protocol import decode
from gswm.studio.server import FirstView, Server, StudioApp, rules_for


@dataclass(frozen=True)
class StudioFigures:
    """The response times that a user experiences."""

    futures: int
    edit: str
    first_ms: float
    """From sending the edit to having the first imagined frame of every future."""
    frames_per_second: float
    """Frames per second of every future, from sending the edit to the last frame."""


def bench_studio(
    model: str, device: torch.device, futures: tuple[int, ...], steps: int, repeats: int
) -> dict[str, Any]:
    """Start a server, connect to it like a page, and time its responses."""
    from websockets.sync.client import connect

    catalog = Catalog(device)
    catalog.add_installed()
    if model not in catalog.models:
        catalog.add_weights(model, model)
    if not catalog.model(model).editable:
        raise UserError(
            f"{model} does not support edits, which this benchmark measures: choose another model"
        )
    world = catalog.models[model].world
    server = Server(StudioApp(catalog, FirstView(model, world), rules_for("127.0.0.1"))).start()
    rows = []
    try:
        address = server.url("/session", "ws")
        for number in futures:
            for kind in ("move", "throw"):
                with connect(address, max_size=None, compression=None) as socket:
                    rows.append(asdict(timed(socket, model, world, number, kind, steps, repeats)))
    finally:
        server.stop()
    return {"model": model, "steps": steps, "machine": machine(device), "figures": rows}


def timed(
    socket: Any, model: str, world: str, futures: int, kind: str, steps: int, repeats: int
) -> StudioFigures:
    """Time one kind of edit repeatedly; the first edit is a warm-up."""
    settings = {"given": 10, "steps": steps, "futures": futures}
    say(socket, {"type": "open", "model": model, "world": world, "settings": settings})
    opened, arrays = until(socket, "opened")
    seen = given = opened["settings"]["given"]
    until(socket, "done")
    while seen < min(len(arrays["pixels"]), given + steps):
        seen += len(until(socket, "seen")[1]["pixels"])
    first, rate = [], []
    for repeat in range(repeats + 1):
        place = [0.1 * repeat - 0.3, 0.2]
        change = {"kind": kind, "id": 0, "xy": place, "velocity": [0.1, 0.05]}
        begin = time.perf_counter()
        say(socket, {"type": "edit", "branch": 0, "frame": given - 1, "change": change})
        until(socket, "futures")
        first.append(time.perf_counter() - begin)
        until(socket, "done")
        rate.append(steps / (time.perf_counter() - begin))
    return StudioFigures(
        futures, kind, 1e3 * statistics.median(first[1:]), statistics.median(rate[1:])
    )


def say(socket: Any, message: dict[str, Any]) -> None:
    """Send a message like a page."""
    socket.send(json.dumps(message))


def until(socket: Any, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Wait for a message of this kind."""
    while (message := decode(socket.recv()))[0]["type"] != kind:
        if message[0]["type"] == "error":
            raise UserError(f"the studio reports: {message[0]['line']}")
    return message
