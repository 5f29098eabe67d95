"""One open page: its requests and responses, one piece of work at a time.

A session does nothing by itself: `step` does one piece of work and returns. A new request to open,
edit or show something replaces the current imagination; other work is queued. Errors are reported
to the page, and the session continues.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from gswm.core.errors import UserError
from gswm.studio.catalog import Catalog
from gswm.studio.desk import Desk, Work
from gswm.studio.jobs import ExportJob
from gswm.studio.protocol import Edit, ExportRequest, Masks, Message, Open, ShowRequest, encode

LINE = 64
"""Maximum number of queued messages; further ones have to wait."""
MOST_JOBS = 8
"""Maximum number of exports in progress per page."""


class Session:
    """The open view of one page, and its requests."""

    def __init__(
        self,
        catalog: Catalog,
        send: Callable[[bytes], None],
        ready: Callable[[], bool] = lambda: True,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.desk, self.send, self.wake = Desk(catalog), send, wake
        self.ready = ready
        """Whether the page can receive more; work pauses for a page that reads slowly."""
        self.line: deque[Message] = deque()
        self.since = 0.0
        """When the page began to wait for a response."""
        self.lock = threading.Lock()
        self.imagining: Work | None = None
        self.opens = False
        """Whether the current work opens a video."""
        self.awaited: Future[Any] | None = None
        """The result that the current work waits for."""
        self.others: deque[Work] = deque()
        self.answered = False
        """Whether the first of these has sent a message."""
        self.jobs: deque[ExportJob] = deque()
        """Exports; one at a time is in progress."""

    def put(self, message: Message) -> bool:
        """Queue a message, unless too many wait; it replaces a preview at the end of the queue."""
        with self.lock:
            if not self.urgent:
                self.since = time.monotonic()
            if self.line and isinstance(self.line[-1], Edit) and self.line[-1].live:
                self.line[-1] = message  # at once, because the worker may look at it
            elif len(self.line) >= LINE:
                return False
            else:
                self.line.append(message)
            return True

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        imagines = self.imagining is not None and not self.waiting
        return self.takes or imagines or bool(self.others or self.job or self.desk.rest)

    @property
    def waiting(self) -> bool:
        """Whether the video to open is still being loaded."""
        return self.awaited is not None and not self.awaited.done()

    @property
    def takes(self) -> bool:
        """Whether the next message can be handled; videos and edits must be complete first."""
        return bool(self.line) and (not self.desk.unfinished or isinstance(self.line[0], Open))

    @property
    def urgent(self) -> bool:
        """Whether the page waits for the first message of a response."""
        return bool(self.line) or self.desk.unfinished or len(self.others) > self.answered

    @property
    def long(self) -> bool:
        """Whether that response takes many pieces: the objects of a video, or masks."""
        if self.takes:
            return isinstance(self.line[0], Masks)
        return self.desk.completing if self.finishes else bool(self.others)

    @property
    def finishes(self) -> bool:
        """Whether there is a piece of an incomplete video or edit to do."""
        return self.desk.unfinished and not self.waiting

    @property
    def shows(self) -> bool:
        """Whether the page shows objects of the video already, and has no further request."""
        return self.desk.completing and bool(self.desk.chunks) and not self.line

    @property
    def job(self) -> ExportJob | None:
        """The export that has work for this thread; None while a process draws."""
        while self.jobs and self.jobs[0].over:
            self.jobs.popleft()
        return self.jobs[0] if self.jobs and self.jobs[0].work is not None else None

    def step(self) -> None:
        """Do one piece of work."""
        message = self.take()
        if isinstance(message, ExportRequest):
            self.export(message)
        elif isinstance(message, Masks):
            self.others.append(self.desk.masks(message))
        elif message is not None:
            self.awaited = None
            self.imagining, self.opens = self.begin(message), isinstance(message, Open)
            if self.advance(self.imagining, getattr(message, "request", 0)) is None:
                self.imagining = None
        elif self.others and not self.finishes:
            sent = self.advance(self.others[0])
            self.answered = sent is not None and (self.answered or bool(sent))
            if sent is None:
                self.others.popleft()
        elif self.imagining is not None and not self.waiting:
            if self.advance(self.imagining) is None:
                self.imagining = None
        elif (job := self.job) is not None and job.work is not None:
            if self.advance(job.work) is None:
                job.work = None
                if not job.drawing:  # else its thread may be over already
                    job.over = True
        elif self.desk.rest is not None and self.advance(self.desk.rest) is None:
            self.desk.rest = None

    def take(self) -> Message | None:
        """The next message, if it can be handled."""
        with self.lock:
            return self.line.popleft() if self.takes else None

    def export(self, message: ExportRequest) -> None:
        """Queue an export."""
        try:
            if len(self.jobs) >= MOST_JOBS:
                raise UserError(f"{MOST_JOBS} exports are in progress: wait for one of them")
            self.jobs.append(ExportJob(self.desk.order(message), self.send))
        except UserError as error:
            self.send(encode({"type": "error", "line": str(error), "request": 0}))

    def close(self) -> None:
        """Drop everything: the page is gone."""
        self.line.clear()
        self.others.clear()
        self.answered = False
        self.imagining = self.awaited = self.desk.rest = None
        for job in self.jobs:
            job.close()
        self.jobs.clear()
        self.desk = Desk(self.desk.catalog)  # the worker refers to the session it served last

    def begin(self, message: Open | Edit | ShowRequest) -> Work:
        """Start work that replaces the current imagination."""
        match message:
            case Open():
                return self.desk.open(message)
            case Edit():
                return self.desk.edit(message)
            case ShowRequest():
                return self.desk.show(message.branch)

    def advance(self, work: Work, request: int = 0) -> bytes | Future[Any] | None:
        """Do one piece of work; return its message, which may be empty, or None at the end."""
        try:
            message = next(work, None)
        except UserError as error:
            line = str(error)
        except Exception as error:  # one page must not be able to stop the worker
            logging.getLogger(__name__).exception("a request failed")
            line = f"internal error: {type(error).__name__}"
        else:
            if isinstance(message, Future):
                self.awaited = message
                message.add_done_callback(lambda _: self.wake())
            elif message:
                self.send(message)
            return message
        of = "open" if self.opens and work is self.imagining else ""
        self.send(encode({"type": "error", "line": line, "request": request, "of": of}))
        return None
