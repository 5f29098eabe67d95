"""A real browser for the tests: Playwright drives Chromium. Run as a program, it installs one."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium was found: `make browser` installs one"


@cache
def chromium() -> str | None:
    """The path of a Chromium: GSWM_CHROMIUM, one on the PATH, or one that Playwright installed."""
    if named := os.environ.get("GSWM_CHROMIUM"):
        return named
    if found := next((found for name in NAMES if (found := shutil.which(name))), None):
        return found
    with sync_playwright() as playwright:
        installed = playwright.chromium.executable_path
    return installed if Path(installed).exists() else None


def launched(playwright: Playwright) -> Browser:
    """The browser, without a window."""
    arguments = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
    return playwright.chromium.launch(executable_path=chromium(), args=arguments)


def install() -> None:
    """Install Debian's Chromium if root and apt-get can, else Playwright's."""
    apt = ["apt-get", "-qq", "-y", "--no-install-recommends"]
    steps = [[*apt, "update"], [*apt, "install", "chromium"]]
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}

    def done(step: list[str]) -> bool:
        return subprocess.run(step, env=env, stdout=subprocess.DEVNULL).returncode == 0

    debian = os.geteuid() == 0 and shutil.which("apt-get") is not None
    if not (debian and all(map(done, steps))):
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


def ensure() -> str:
    """A line that says which browser there is; if there was none, it has been installed."""
    if found := chromium():
        return f"Chromium is installed already: {found}"
    install()
    chromium.cache_clear()
    with sync_playwright() as playwright:
        launched(playwright).close()
    return f"Chromium is installed: {chromium()}"


def packed(view: object) -> str:
    """A view as it is in the address."""
    data = base64.urlsafe_b64encode(json.dumps(view).encode()).decode()
    return f"#view={data.rstrip('=')}"


class Studio:
    """`gswm studio` in a process of its own."""

    def __init__(self, port: int = 0) -> None:
        command = [sys.executable, "-m", "gswm", "studio", "--no-browser", "--port", str(port)]
        source = str(Path(__file__).parents[1] / "src")
        environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:(\d+)/\S+", line)
        assert found, f"the studio said: {line}"
        self.address, self.port = found[0], int(found[1])

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


if __name__ == "__main__":
    try:
        print(ensure())
    except (subprocess.CalledProcessError, Error) as error:
        sys.exit(f"no Chromium that starts could be installed: {error}")
