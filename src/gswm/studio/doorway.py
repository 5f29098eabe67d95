"""A page on disk that redirects a browser to the studio.

Other users of the machine can see the arguments of all processes. Starting the browser with the
studio's address would reveal the token; this page is readable only by its owner.
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
    """Write the page, in the home folder if possible: sandboxed browsers cannot read others."""
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
