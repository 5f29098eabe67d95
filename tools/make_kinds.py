"""Write the ten synthetic kinds of video of the tests, with their true boxes, into a folder.

    python tools/make_kinds.py kinds
    gswm eval clips kinds/insects.mp4 --labels kinds/insects.txt

Boxes are in MOTChallenge format. An object of which less than half is in the frame is an ignore
region.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import synthetic_videos


def rows(made: synthetic_videos.Synthetic) -> list[str]:
    """One line per object and frame."""
    height, width = made.video.shape[1:3]
    lines = []
    for t, centers in enumerate(made.centers):
        for n, (center, size) in enumerate(zip(centers, made.sizes, strict=True)):
            low = (center - size / 2).clip(0, (width, height))
            high = (center + size / 2).clip(0, (width, height))
            if np.all(high > low):
                who, conf = (n + 1, 1) if made.present[t, n] else (-1, 0)
                box = ",".join(f"{value:.2f}" for value in (*low, *(high - low)))
                lines.append(f"{t + 1},{who},{box},{conf},1,1")
    return lines


def main() -> None:
    """Write all kinds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for kind in synthetic_videos.KINDS:
        made = synthetic_videos.make(kind)
        synthetic_videos.save(out / f"{kind}.mp4", made.video)
        (out / f"{kind}.txt").write_text("\n".join(rows(made)) + "\n")


if __name__ == "__main__":
    main()
