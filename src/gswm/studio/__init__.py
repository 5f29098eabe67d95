"""The studio: a browser page that shows what a model infers, edits it, and imagines the result.

    protocol    validated messages, with arrays as bytes
    throwing    throws, by rendering an object's past again
    branches    inferred and imagined frames, with every edit as a branch
    exports     GIF, MP4, PNG and CSV of a branch
    jobs        exports in progress
    drawing     a subprocess with limits that renders one file
    perceiving  the given frames of a video, inferred once for all pages
    opening     the first frame to show of a video
    catalog     models, worlds and uploads, by name
    desk        the open view of one page, and the work on it
    session     one open page: its requests and responses
    memory      the server's memory, close to what it uses
    worker      one thread that serves all sessions in turn
    decoding    a subprocess with limits that decodes one video
    limits      memory and time limits of these subprocesses
    uploads     uploaded videos
    safety      access control
    server      the Starlette server, with one WebSocket per tab
    doorway     a page that redirects a browser to the server
    notebook    `gswm.studio(model, video)`

The package is callable: `gswm.studio(model, video)` shows the page in a notebook.
"""

import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A callable module: calls are forwarded to `notebook.studio`."""

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Show the studio in a notebook."""
        from gswm.studio.notebook import studio

        return studio(*args, **settings)


sys.modules[__name__].__class__ = CallableModule
