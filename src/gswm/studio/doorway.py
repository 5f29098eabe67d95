"""A page on disk that leads a browser to the studio.

The arguments of a process are visible to every user of a machine, and an address with its token
would be one if a browser were started with it. The page can be read by its user alone.
"""

import html
import tempfile
from pathlib import Path

from gswm.core.errors import UserError

PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>gswm studio</title>
<a href="{address}">gswm studio</a>
"""


def make(address: str) -> Path:
    """Write the page. In the home folder if possible: a confined browser may read no other."""
    for folder in (Path.home(), Path(tempfile.gettempdir())):
        try:
            handle, name = tempfile.mkstemp(".html", "gswm-studio-", folder)
        except OSError:
            continue
        with open(handle, "w", encoding="utf-8") as file:
            file.write(PAGE.format(address=html.escape(address, quote=True)))
        return Path(name)
    raise UserError("no folder for the browser's page: add --no-browser, and open the address")
