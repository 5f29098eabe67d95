"""One open page: messages in, messages out, one piece of work at a time.

A session does nothing by itself: `step` does one piece of work and returns. What is being imagined
stops when the page opens, edits or shows something else: the newest wins. Other work waits in
line. A mistake is told to the page, and its tab goes on.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator

from gswm.core.errors import UserError
from gswm.studio.catalog import Catalog
from gswm.studio.desk import Desk
from gswm.studio.protocol import Edit, ExportRequest, Masks, Message, Open, ShowRequest, encode

LINE = 64
"""Messages that wait; who sends more has to wait."""

Work = Iterator[bytes]


class Session:
    """What one page has open, and what it has asked for."""

    def __init__(
        self,
        catalog: Catalog,
        send: Callable[[bytes], None],
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self.desk, self.send = Desk(catalog), send
        self.ready = ready
        """Whether the page can take more: work waits for a page that reads slowly."""
        self.line: deque[Message] = deque()
        self.lock = threading.Lock()
        self.imagining: Work | None = None
        self.opens = False
        """Whether it opens a video."""
        self.others: deque[Work] = deque()

    def put(self, message: Message) -> bool:
        """Take a message, unless too many wait; it replaces a newest one that is only a preview."""
        with self.lock:
            while self.line and isinstance(self.line[-1], Edit) and self.line[-1].live:
                self.line.pop()
            if len(self.line) >= LINE:
                return False
            self.line.append(message)
            return True

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.line or self.imagining or self.others or self.desk.rest)

    def step(self) -> None:
        """Do one piece of work."""
        message = self.take()
        if isinstance(message, ExportRequest):
            self.others.append(self.desk.export(message))
        elif isinstance(message, Masks):
            self.others.append(self.desk.masks(message))
        elif message is not None:
            self.imagining, self.opens = self.begin(message), isinstance(message, Open)
            if not self.advance(self.imagining, getattr(message, "request", 0)):
                self.imagining = None
        elif self.others:
            if not self.advance(self.others[0]):
                self.others.popleft()
        elif self.imagining is not None:
            if not self.advance(self.imagining):
                self.imagining = None
        elif self.desk.rest is not None and not self.advance(self.desk.rest):
            self.desk.rest = None

    def take(self) -> Message | None:
        """The next message; while something is being opened, only what opens something else."""
        with self.lock:
            if self.line and (not self.desk.opening or isinstance(self.line[0], Open)):
                return self.line.popleft()
            return None

    def begin(self, message: Open | Edit | ShowRequest) -> Work:
        """What replaces whatever was being imagined."""
        match message:
            case Open():
                return self.desk.open(message)
            case Edit():
                return self.desk.edit(message)
            case ShowRequest():
                return self.desk.show(message.branch)

    def advance(self, work: Work, request: int = 0) -> bool:
        """One piece of some work; whether there may be more."""
        try:
            message = next(work, None)
        except UserError as error:
            line = str(error)
        except Exception as error:  # a page must not be able to stop the worker of all pages
            logging.getLogger(__name__).exception("a piece of work failed")
            line = f"this cannot be done: {type(error).__name__}"
        else:
            if message is not None:
                self.send(message)
            return message is not None
        of = "open" if self.opens and work is self.imagining else ""
        self.send(encode({"type": "error", "line": line, "request": request, "of": of}))
        return False
