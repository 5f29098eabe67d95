"""A real browser for the tests: Playwright's driver, and a Chromium that is installed here."""

import base64
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """Where Chromium is; GSWM_CHROMIUM says so where it has another name."""
    named = os.environ.get("GSWM_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


def missing() -> str | None:
    """Why there are no tests in a browser, if there are none."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed"
    return None if chromium() else "there is no Chromium here; install it, or set GSWM_CHROMIUM"


def launched(playwright: Any) -> Any:
    """The browser, without a window."""
    arguments = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
    return playwright.chromium.launch(executable_path=chromium(), args=arguments)


def packed(view: dict[str, Any]) -> str:
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
        found = re.search(r"http://\S+:(\d+)/", line)
        assert found, f"the studio said: {line}"
        self.address, self.port = found[0], int(found[1])

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
