"""One thread that serves all sessions in turn, a piece each: no page waits for another's work."""

import threading
import time
from collections.abc import Callable

import torch

from gswm.studio.session import Session

URGENT = 9
"""Seconds for pages that wait for an answer, for each second that goes to all pages in order."""


class Worker:
    """The thread, and who it serves."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.sessions: list[Session] = []
        """Whoever was served last is the last of them."""
        self.serving: Session | None = None
        self.clock, self.began = clock, 0.0
        self.favored = False
        """Whether a page is served because it waits for an answer."""
        self.credit = 0.0
        """Seconds for pages that wait for an answer, before the next turn that goes in order."""
        self.wake = threading.Condition()
        self.ends = False
        self.thread = threading.Thread(target=self.run, name="gswm-studio", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self.thread.start()

    def stop(self) -> None:
        """End after the piece that is being done."""
        with self.wake:
            self.ends = True
            self.wake.notify_all()
        self.thread.join(timeout=10)

    def join(self, session: Session) -> None:
        """Serve one more."""
        with self.wake:
            self.sessions.append(session)

    def leave(self, session: Session) -> None:
        """Stop serving a session, wait for its piece in progress, and close it.

        Closing waits for processes that draw, so nobody else waits meanwhile: neither the lock is
        held, nor is it done by the thread that serves.
        """
        with self.wake:
            self.sessions.remove(session)
            while self.serving is session:
                self.wake.wait()
        session.close()

    def notify(self) -> None:
        """There may be something to do."""
        with self.wake:
            self.wake.notify_all()

    def next(self) -> Session | None:
        """Whose turn it is; waits until it is somebody's. None at the end.

        Most of the time goes to pages that wait for an answer, before pages that only have more to
        imagine. The turns between go to all pages in order, so that no page starves another.
        """
        with self.wake:
            while not self.ends:
                waiting = [each for each in self.sessions if each.busy and each.ready()]
                if waiting:
                    urgent = [each for each in waiting if each.urgent] if self.credit > 0 else []
                    session = (urgent or waiting)[0]
                    self.sessions.remove(session)
                    self.sessions.append(session)
                    self.serving, self.favored, self.began = session, bool(urgent), self.clock()
                    return session
                self.wake.wait(timeout=1)
            return None

    def run(self) -> None:
        """Serve until the end."""
        # Frames of one video are small work: one thread is faster for them than many, and leaves
        # the other cores to the browser.
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        while (session := self.next()) is not None:
            try:
                session.step()
            finally:
                self.served()

    def served(self) -> None:
        """A piece is done."""
        took = self.clock() - self.began
        self.credit = self.credit - took if self.favored else URGENT * took
        with self.wake:
            self.serving = None
            self.wake.notify_all()
