"""`gswm demo`."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

from gswm.commands.data import drawn
from gswm.commands.evaluate import EvaluateCommand
from gswm.commands.imagine import ImagineCommand
from gswm.commands.track import TrackCommand
from gswm.commands.weights import listed
from gswm.core.files import check_folder, make_folder, write_whole
from gswm.core.limits import LARGEST_SCALE, check_range
from gswm.data.example import CARS, CREDIT
from gswm.data.worlds.base import World
from gswm.data.worlds.registry import WORLDS
from gswm.report import figures, results
from gswm.report.page import Section, element, figure, movie, page, table_html
from gswm.report.results import Results
from gswm.report.tables import tables
from gswm.viz import formats, pictures
from gswm.weights.finding import ANY_VIDEO, installed

EPISODES = 4
SHEET_COLUMNS = 9
FRAMES = 40
FPS = 10


@dataclass(frozen=True)
class DemoScene:
    """One installed model of the demo."""

    name: str
    text: str
    steps: int
    futures: int
    measured: int
    """Number of test episodes of the short evaluation."""
    tables: tuple[str, ...]
    figures: tuple[str, ...]
    fps: int = FPS
    scale: int = 2

    @property
    def sample(self) -> bool:
        """Whether futures are sampled; a single future is the mean, as in the paper."""
        return self.futures > 1

    def command(self) -> str:
        """The equivalent command."""
        how = f"--futures {self.futures}" if self.sample else "--no-sample"
        return f"gswm imagine {self.name} --steps {self.steps} {how}"


SCENES = (
    DemoScene(
        *("obj3d-128", "Ten frames are given, before a sphere hits the objects."),
        *(50, 1, 1, ("obj3d",), ("obj3d-128",), FPS, 1),
    ),
    DemoScene(
        *("two-layer", "Three red balls over three blue ones. Ten frames are given."),
        *(40, 1, 16, ("error", "strict", "mota"), ("ways", "tracking")),
    ),
    DemoScene(
        *("single-ball", "Five frames are given; then the ball may turn left or right."),
        *(4, 16, 2, ("futures",), ("futures",), 4),
    ),
    DemoScene(
        *("maze", "Five frames are given; agents keep to the dark corridors and turn at random."),
        *(30, 8, 2, ("corridor",), ("maze",), 8),
    ),
)


@dataclass(frozen=True)
class DemoCommand:
    """Settings of `gswm demo`."""

    out: Path = Path("demo")
    """Output folder; open its index.html in a browser."""
    scale: int = 2
    """Scale factor of the frames of the worlds."""
    device: str = "cpu"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""
    force: bool = False
    """Overwrite files in a folder that gswm did not create."""

    def run(self) -> None:
        """Track, imagine and evaluate with the installed weights, and show every world."""
        check_range({"--scale": self.scale}, 1, LARGEST_SCALE)
        names = ("index.html", "film", "worlds", *(scene.name for scene in SCENES))
        check_folder(self.out, names, force=self.force)
        make_folder(self.out, "demo")
        there = installed()
        able = [s for s in SCENES if s.name in there and not WORLDS[s.name].missing()]
        sections = [self.scene(scene) for scene in able]
        if not there:
            print("no weights are installed, so the demo shows only worlds")
        if ANY_VIDEO in there:
            in_3d = [scene for scene in able if WORLDS[scene.name].style == "stills"]
            sections.insert(len(in_3d), self.film())
        else:
            print(f"skipped the example video: '{ANY_VIDEO}', which tracks it, is not installed")
        can = {name: world for name, world in WORLDS.items() if not world.missing()}
        lacks = {name: world.missing() for name, world in WORLDS.items() if name not in can}
        for what in dict.fromkeys(lacks.values()):
            alike = ", ".join(name for name in lacks if lacks[name] == what)
            print(f"skipped {alike}: needs {what}")
        shown = tuple(self.world(name, world) for name, world in can.items())
        grid = f'<div class="grid">{"".join(shown)}</div>'
        sections.append(
            Section("The worlds", "Test episodes with ground-truth boxes and ids.", (grid,))
        )
        index = self.out / "index.html"
        lead = "Tracks and futures of the installed models, computed on this machine."
        write_whole(index, page("gswm", lead, sections, "Created by `gswm demo`.").encode())
        print(f"open {index}")

    def film(self) -> Section:
        """The example video, tracked by the weights for any video."""
        folder = self.out / "film"
        drawn, table = folder / CARS.name, folder / "tracks.csv"
        print(f"\ngswm track {CARS} --out {drawn} --out {table}")
        TrackCommand(str(CARS), out=(drawn, table), device=self.device, force=True).run()
        text = (
            f"`{ANY_VIDEO}` was not trained on this video. `gswm track VIDEO` does the same for "
            f"any video from a fixed camera, and writes boxes in its pixels."
        )
        shown = movie(drawn.relative_to(self.out).as_posix())
        return Section("Any video", text, (figure(shown, CREDIT),))

    def scene(self, scene: DemoScene) -> Section:
        """One model: its imagined futures and scores."""
        folder = self.out / scene.name
        print(f"\n{scene.command()}")
        ImagineCommand(
            scene.name,
            steps=scene.steps,
            futures=scene.futures,
            sample=scene.sample,
            out=folder,
            scale=scene.scale,
            fps=scene.fps,
            mp4=False,
            device=self.device,
            force=True,
        ).run()
        EvaluateCommand(
            scene.name,
            episodes=scene.measured,
            device=self.device,
            json=folder / "eval.json",
            force=True,
        ).run()
        found = results.read([folder / "eval.json"])
        whole = WORLDS[scene.name].splits["test"].episodes
        shown = [
            linked(folder / "imagined.gif", self.out, f"`{scene.command()}`"),
            *measured(found, scene),
        ]
        text = (
            f"{scene.text} The scores are preliminary: they cover {scene.measured} of the {whole} "
            f"test episodes. {of_all(found)}"
        )
        return Section(scene.name, text, tuple(shown))

    def world(self, name: str, world: World) -> str:
        """A contact sheet of a world's first test episodes, and the episodes side by side."""
        episodes = next(world.episodes(world.splits["test"].seed, EPISODES))
        videos = [drawn(episodes, i, self.scale, length=FRAMES) for i in range(len(episodes))]
        labels = [f"episode {i}" for i in range(len(videos))]
        every = 2 if world.num_frames > 2 * SHEET_COLUMNS else 1
        times = range(0, every * SHEET_COLUMNS, every)
        picture = pictures.sheet(
            *([video[list(times)] for video in videos], labels, [f"t = {t}" for t in times], name)
        )
        folder = self.out / "worlds"
        formats.save_picture(folder / f"{name}.png", picture)
        moving = folder / f"{name}.gif"
        formats.save_video(moving, pictures.side_by_side(videos, labels), FPS)
        print(f"{name:16} {moving}")
        return linked(moving, self.out, name)


def measured(found: Results, scene: DemoScene) -> list[str]:
    """The tables of a short evaluation, beside the paper's numbers, and its figures."""
    rows = tables(found)
    shown = [
        f"<h3>{escape(rows[n].title)}</h3>{table_html(rows[n].filled())}" for n in scene.tables
    ]
    made = figures.figures(found)
    for name in (name for name in scene.figures if name in made):
        shown.append(figure(element(made[name], name), figures.CAPTIONS[name]))
    return shown


def of_all(found: Results) -> str:
    """The scores on all test episodes, from the header of the weights."""
    scores = listed(found.all[0].about.get("test", {}))
    known = [f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.items()]
    return f"On all of them: {', '.join(known)}." if known else ""


def linked(file: Path, folder: Path, caption: str) -> str:
    """A picture file in the folder of the page."""
    name = escape(file.relative_to(folder).as_posix(), quote=True)
    return figure(f'<img alt="{escape(file.stem, quote=True)}" src="{name}">', caption)
