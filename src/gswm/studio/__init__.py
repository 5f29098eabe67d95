"""The studio: a page in the browser to see what a model sees, edit it, and ask what if.

    protocol    messages, checked; arrays as bytes
    throwing    an object thrown, by drawing its past anew
    branches    what was seen and imagined, and every edit as a branch of it
    exports     GIF, MP4, PNG and CSV of a branch
    jobs        files on their way to a page
    drawing     a process that draws one file under limits, and can be killed
    perceiving  the given frames of a video, inferred once for all pages
    opening     the beginning of the first view of a video
    catalog     models, worlds and uploads, by name
    desk        what is open on one page, and the work on it
    session     one open page: messages in, messages out, a piece at a time
    worker      one thread that serves all sessions in turn
    decoding    a process that decodes one video under limits, and can be killed
    limits      memory and time of these processes
    uploads     videos from the page
    safety      who may talk to the server
    server      Starlette, a WebSocket a tab
    doorway     a page that leads a browser to the server
    notebook    `gswm.studio(model, video)`

The package can be called: `gswm.studio(model, video)` shows the page in a notebook.
"""

import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that can be called: it calls `notebook.studio`."""

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Show the studio in a notebook."""
        from gswm.studio.notebook import studio

        return studio(*args, **settings)


sys.modules[__name__].__class__ = CallableModule
