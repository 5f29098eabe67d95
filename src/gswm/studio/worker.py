"""One thread that serves all sessions in turn, one piece of work each."""

import threading
import time
from collections.abc import Callable

import torch

from gswm.studio.memory import Trimmer
from gswm.studio.session import Session

URGENT = 9
"""Ratio of time for pages that wait for a response to time for all pages in turn."""


class Worker:
    """The worker thread and its sessions."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.sessions: list[Session] = []
        """All sessions, least recently served first."""
        self.serving: Session | None = None
        self.clock, self.began = clock, 0.0
        self.favored = False
        """Whether the current page is served because it waits for a response."""
        self.long = False
        """Whether the last of these responses takes many pieces."""
        self.credit = 0.0
        """Seconds left for pages that wait for a response, before the next turn in order."""
        self.memory = Trimmer()
        self.wake = threading.Condition()
        self.ends = False
        self.thread = threading.Thread(target=self.run, name="gswm-studio", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def stop(self) -> None:
        """Stop after the current piece of work."""
        with self.wake:
            self.ends = True
            self.wake.notify_all()
        self.thread.join(timeout=10)

    def join(self, session: Session) -> None:
        """Add a session."""
        with self.wake:
            self.sessions.append(session)

    def leave(self, session: Session) -> None:
        """Stop serving a session, wait for its piece in progress, and close it.

        Closing waits for subprocesses. It happens without the lock and outside the worker thread,
        so other sessions do not wait.
        """
        with self.wake:
            self.sessions.remove(session)
            while self.serving is session:
                self.wake.wait()
        session.close()
        self.memory.trim()

    def notify(self) -> None:
        """Wake the thread up."""
        with self.wake:
            self.wake.notify_all()

    def next(self) -> Session | None:
        """Wait for the next session with work; None at the end.

        Most of the time goes to pages that wait for a response (`first`). The remaining turns go to
        all pages in order, so that none starves.
        """
        with self.wake:
            while not self.ends:
                waiting = [each for each in self.sessions if each.busy and each.ready()]
                if waiting:
                    urgent = [each for each in waiting if each.urgent] if self.credit > 0 else []
                    session = self.first(urgent) if urgent else waiting[0]
                    self.sessions.remove(session)
                    self.sessions.append(session)
                    self.serving, self.favored, self.began = session, bool(urgent), self.clock()
                    return session
                self.wake.wait(timeout=1)
            return None

    def first(self, urgent: list[Session]) -> Session:
        """Choose among pages that wait for a response.

        Short and long responses alternate, so that an edit waits for at most one piece of a long
        one. Of the long ones, pages without any object come first. Apart from that, long responses
        are finished one after the other, oldest first: in turns, all of them would take as long as
        the last one.
        """
        short = [each for each in urgent if not each.long]
        long = [each for each in urgent if each.long]
        self.long = bool(long) and not (short and self.long)
        return min(long, key=lambda each: (each.shows, each.since)) if self.long else short[0]

    def run(self) -> None:
        """Serve until the end."""
        # Inference of single videos is faster in one thread than in many, and leaves
        # the other cores to the browser.
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        while (session := self.next()) is not None:
            try:
                session.step()
            finally:
                self.served()
            self.memory.now_and_then()

    def served(self) -> None:
        """Account for a finished piece of work."""
        took = self.clock() - self.began
        self.credit = self.credit - took if self.favored else URGENT * took
        with self.wake:
            self.serving = None
            self.wake.notify_all()
