"""A page on disk that redirects a browser to the studio.

Every user of a machine can see the arguments of all processes, and so the token, if the browser
were started with the studio's address. Only the user can read the page.
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
    """Write the page, in the home folder if possible: sandboxed browsers may read no other."""
    for folder in (Path.home(), Path(tempfile.gettempdir())):
        try:
            handle, name = tempfile.mkstemp(".html", "gswm-studio-", folder)
        except OSError:
            continue
        with open(handle, "w", encoding="utf-8") as file:
            file.write(PAGE.format(address=html.escape(address, quote=True)))
        return Path(name)
    raise UserError(
        "cannot write a page for the browser: use --no-browser, and open the address yourself"
    )
