"""Build the wheel, install it into an empty environment outside the checkout, and use it there.

    python tools/try_wheel.py

It fails unless the wheel has at most 50 MB, contains its bill of materials and its weights, `gswm
demo` writes its page, and `gswm studio` serves its page to who has the token, and to nobody else.
Packages have the versions in constraints.txt.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

sys.path.insert(0, str(Path(__file__).parent))
import wheel_weights

ROOT = Path(__file__).parents[1]
LARGEST = 50_000_000
SECONDS = 1_200
"""For each command, on a machine that is busy."""


def main() -> None:
    """Do all of it in a temporary folder."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gswm-wheel-") as name:
        folder = Path(name)
        wheel = build(folder)
        check(wheel)
        told("built", began)
        gswm = install(folder, wheel)
        told("installed", began)
        try_demo(folder, gswm)
        told("demo made", began)
        try_studio(folder, gswm)
        told("studio opened", began)


def told(what: str, began: float) -> None:
    """Say how far it is."""
    print(f"{what} after {time.monotonic() - began:.0f} s", flush=True)


def run(words: Sequence[str | Path], folder: Path) -> str:
    """Run a command outside the checkout, and return what it prints."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    """Environment variables without what leads to the checkout, or to weights elsewhere."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "GSWM_WEIGHTS_URL")}
    return kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "TMPDIR": str(folder)}


def build(folder: Path) -> Path:
    """Build the wheel from the checkout."""
    to = folder / "wheel"
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", to, ROOT], folder)
    (wheel,) = to.glob("gswm-*.whl")
    return wheel


def check(wheel: Path) -> None:
    """Check the size and the contents."""
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.1f} MB")
    if size > LARGEST:
        sys.exit(f"the wheel has more than {LARGEST / 1e6:.0f} MB")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    shipped = {name for name in names if name.endswith(".safetensors")}
    if shipped != {f"{wheel_weights.FOLDER}/{each.name}" for each in wheel_weights.files()}:
        sys.exit(f"the wheel has other weights than pyproject.toml says: {', '.join(shipped)}")
    wanted = ("checksums.txt", "catalog.json", "sboms/gswm.cdx.json")
    for each in wanted:
        if not any(name.endswith(each) for name in names):
            sys.exit(f"the wheel has no {each}")


def install(folder: Path, wheel: Path) -> Path:
    """Install the wheel; the command `gswm`."""
    environment = folder / "environment"
    run([sys.executable, "-m", "venv", environment], folder)
    python = environment / "bin" / "python"
    limits = ("-c", ROOT / "constraints.txt")
    how = ("-q", "--no-compile")  # most of torch is never imported
    run([python, "-m", "pip", "install", *how, *limits, f"{wheel}[studio]"], folder)
    place = run([python, "-c", "import gswm; print(gswm.__file__)"], folder).strip()
    if not Path(place).resolve().is_relative_to(environment.resolve()):
        sys.exit(f"this imports another gswm: {place}")
    return environment / "bin" / "gswm"


def try_demo(folder: Path, gswm: Path) -> None:
    """List the weights, and make the demo."""
    print(run([gswm, "weights"], folder).splitlines()[-1])
    run([gswm, "demo", "--out", "demo"], folder)
    page = (folder / "demo" / "index.html").read_text()
    scenes = [file.stem for file in wheel_weights.files() if file.stem != "clips"]
    for name in scenes:
        if f"{name}/imagined.gif" not in page:
            sys.exit(f"the demo does not show {name}")


def try_studio(folder: Path, gswm: Path) -> None:
    """Start the studio, open its page with and without the token, and end it."""
    words = [str(gswm), "studio", "--no-browser", "--device", "cpu"]
    env = environment(folder) | {"PYTHONUNBUFFERED": "1"}
    started = subprocess.Popen(
        words,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may ignore it
    )
    try:
        assert started.stdout is not None
        line = started.stdout.readline()
        found = re.search(r"https?://\S+", line)
        if found is None:
            sys.exit(f"gswm studio printed no address: {line!r}")
        opened = build_opener(ProxyHandler({}))
        with opened.open(found[0], timeout=SECONDS) as answer:
            page = answer.read().decode()
        if answer.status != 200 or "<html" not in page:
            sys.exit("the studio serves no page")
        try:
            with opened.open(found[0].partition("?")[0], timeout=SECONDS) as answer:
                sys.exit(f"the studio answers {answer.status} without its token")
        except HTTPError as error:
            if error.code != 403:
                sys.exit(f"the studio answers {error.code} without its token")
        started.send_signal(signal.SIGINT)
        if started.wait(timeout=SECONDS) not in (0, 130):
            sys.exit(f"the studio ended with {started.returncode}")
    finally:
        if started.poll() is None:
            started.kill()
            started.wait()


if __name__ == "__main__":
    main()
