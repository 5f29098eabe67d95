"""`gswm demo`."""

from dataclasses import dataclass
from pathlib import Path

from gswm.commands.data import drawn
from gswm.data import picture_files, pictures
from gswm.data.episode import Episodes
from gswm.data.world import World
from gswm.data.worlds import WORLDS
from gswm.errors import UserError

EPISODES = 4
SHEET_COLUMNS = 9
FRAMES = 50
FPS = 10


@dataclass(frozen=True)
class Demo:
    """Settings of `gswm demo`."""

    out: Path = Path("demo")
    """The folder to write to."""
    scale: int = 3
    """Enlarge the frames so many times."""

    def run(self) -> None:
        """Make the first test episodes of every world, and show them."""
        if self.scale < 1:
            raise UserError(f"--scale is {self.scale}; it must be at least 1")
        picture_files.make_folder(self.out)
        for name, world in WORLDS.items():
            episodes = next(world.episodes(world.splits["test"].seed, EPISODES))
            sheet, moving = self.out / f"{name}.png", self.out / f"{name}.gif"
            self.show(world, episodes, sheet, moving)
            print(f"{name:16} {sheet}  {moving}")

    def show(self, world: World, episodes: Episodes, sheet: Path, moving: Path) -> None:
        """A contact sheet of the beginning, and the episodes side by side."""
        videos = [drawn(episodes, i, self.scale, length=FRAMES) for i in range(len(episodes))]
        labels = [f"episode {i}" for i in range(len(videos))]
        every = 2 if world.num_frames > 2 * SHEET_COLUMNS else 1
        times = range(0, every * SHEET_COLUMNS, every)
        picture = pictures.sheet(
            [video[list(times)] for video in videos],
            labels,
            [f"t = {t}" for t in times],
            world.name,
        )
        picture_files.save_picture(sheet, picture)
        picture_files.save_video(moving, pictures.side_by_side(videos, labels), FPS)
