"""The worker: scheduling between tabs, and closing of tabs."""

import threading
import time
from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from studio import Page, catalog

from gswm.studio.perceiving import CHUNK
from gswm.studio.protocol import ShowRequest
from gswm.studio.session import Session
from gswm.studio.worker import URGENT, Worker


class Endless(Session):
    """A page that always has something to do."""

    def __init__(self, waits: bool, opened: float | None = None) -> None:
        super().__init__(catalog(), lambda _: None)
        self.waits, self.since = waits, opened or 0.0
        self.desk.unfinished = self.desk.completing = opened is not None

    @property
    def busy(self) -> bool:
        return True

    @property
    def urgent(self) -> bool:
        return self.waits


def worker_for(*sessions: Session) -> Worker:
    """A worker by whose clock each piece takes a second."""
    worker = Worker(count().__next__)
    for session in sessions:
        worker.join(session)
    return worker


def turns(worker: Worker, number: int) -> list[Session]:
    """The sessions that the worker serves next, without its thread."""
    served = []
    for _ in range(number):
        session = worker.next()
        assert session is not None
        served.append(session)
        session.step()
        worker.served()
    return served


def test_a_page_that_asks_is_served_before_pages_that_imagine() -> None:
    pages = [Page() for _ in range(5)]
    worker = worker_for(*(page.session for page in pages))
    for page in pages[1:]:
        page.say(
            type="open",
            model="small",
            world="noise",
            settings={"given": 2, "steps": 100, "futures": 8},
        )
        page.session.step()
    turns(worker, 20)
    pages[0].say(type="open", model="small", world="noise", settings={"given": 2, "steps": 2})
    assert pages[0].session in turns(worker, 2)


@given(st.lists(st.tuples(*[st.floats(0.001, 1)] * 2), min_size=20, max_size=60))
def test_long_pieces_of_other_pages_take_no_more_of_the_time(
    pieces: list[tuple[float, float]],
) -> None:
    now, longest, spent = 0.0, 0.0, [0.0, 0.0]
    worker = Worker(lambda: now)
    for waits in (True, False, False):
        worker.join(Endless(waits))
    for piece in pieces:
        session = worker.next()
        assert session is not None
        now += piece[session.urgent]
        spent[session.urgent] += piece[session.urgent]
        longest = max(longest, piece[0])
        worker.served()
    imagined, answered = spent
    assert answered >= URGENT * (imagined - longest) - 1e-6


def test_pages_that_ask_without_end_stop_no_other() -> None:
    pages = [Endless(True), Endless(True), Endless(False)]
    served = turns(worker_for(*pages), 3 * (URGENT + 1))
    assert served.count(pages[2]) >= 2


def test_videos_are_opened_in_the_order_of_their_requests() -> None:
    later, earlier = Endless(True, opened=2), Endless(True, opened=1)
    worker = worker_for(later, earlier)
    turns(worker, 1)  # this one goes to all pages in turn
    assert turns(worker, URGENT) == [earlier] * URGENT


def infers_since(since: float, shows: bool) -> Endless:
    """A page whose video is being inferred, with or without any objects so far."""
    made = Endless(True, opened=since)
    made.desk.chunks = list(Page().open().session.desk.chunks) if shows else []
    return made


def test_pages_without_any_object_come_first() -> None:
    earlier, later = infers_since(1, shows=True), infers_since(2, shows=False)
    worker = worker_for(earlier, later)
    turns(worker, 1)
    assert turns(worker, 2) == [later] * 2
    later.desk.chunks = earlier.desk.chunks
    assert turns(worker, 2) == [earlier] * 2


def test_a_page_with_a_request_is_completed_before_pages_that_only_look() -> None:
    earlier, later = infers_since(1, shows=True), infers_since(2, shows=True)
    later.put(ShowRequest(0))
    worker = worker_for(earlier, later)
    turns(worker, 1)
    assert turns(worker, 2) == [later] * 2


def test_a_video_is_shown_while_others_are_inferred() -> None:
    pages = [Page() for _ in range(4)]
    worker = worker_for(*(page.session for page in pages))
    for page in pages[1:]:
        page.say(type="open", model="small", world="noise", settings={"given": 8})
        while not page.of("opened"):
            page.session.step()
    turns(worker, 1)
    pages[0].say(type="open", model="small", world="noise", settings={"given": 8})
    for _ in range(2):  # to take the request, and to answer it
        while pages[0].session not in turns(worker, 1):
            assert sum(len(page.of("seen")) for page in pages) <= 4
        while pages[0].session.waiting:
            time.sleep(0.01)
    assert pages[0].of("opened")


def test_an_edit_waits_for_one_piece_of_a_long_response() -> None:
    edits, opens = Endless(True), Endless(True, opened=1)
    worker = worker_for(edits, opens)
    turns(worker, 1)
    served = turns(worker, 6)
    assert served[::2] == [served[0]] * 3
    assert served[1::2] == [served[1]] * 3
    assert set(served) == {edits, opens}


def test_what_takes_long() -> None:
    page = Page()
    page.say(type="open", model="small", world="noise", settings={"given": 8, "steps": 20})
    while not page.of("opened"):
        assert not page.session.long
        page.session.step()
    while page.session.urgent:
        assert page.session.long
        page.session.step()
    assert page.of("branch")
    page.say(type="show", branch=0)
    assert page.session.urgent
    assert not page.session.long
    page.session.step()
    page.say(type="masks", branch=0, future=0)
    assert page.session.long


def test_a_page_waits_since_its_first_request() -> None:
    page = Page().open()
    page.say(type="show", branch=0)
    since = page.session.since
    page.say(type="masks", branch=0, future=0)
    assert page.session.since == since
    while page.session.busy:
        page.session.step()
    page.say(type="show", branch=0)
    assert page.session.since > since


def test_a_page_that_leaves_while_it_is_served_is_closed_after_its_piece() -> None:
    page = Page().open()
    worker = worker_for(page.session)
    page.say(type="show", branch=0)
    session = worker.next()
    assert session is page.session
    session.step()
    leaving = threading.Thread(target=worker.leave, args=(session,))
    leaving.start()
    while session in worker.sessions:
        time.sleep(0.01)
    assert session.busy  # its piece may still be under way
    worker.served()
    leaving.join()
    assert not session.busy


def test_nobody_waits_for_a_page_that_is_being_closed() -> None:
    closing, other = (Page().open() for _ in range(2))
    worker = worker_for(closing.session, other.session)
    begun, finish = threading.Event(), threading.Event()

    def close() -> None:
        begun.set()
        finish.wait()

    closing.session.close = close
    leaving = threading.Thread(target=worker.leave, args=(closing.session,))
    leaving.start()
    begun.wait()
    other.say(type="show", branch=0)
    served: list[Session] = []
    serving = threading.Thread(target=lambda: served.extend(turns(worker, 1)))
    serving.start()
    serving.join(10)
    before_the_end = list(served)
    finish.set()
    leaving.join()
    assert before_the_end == [other.session]


def test_a_page_that_waits_for_masks_is_served_before_pages_that_imagine() -> None:
    pages = [Page().open() for _ in range(4)]
    worker = worker_for(*(page.session for page in pages))
    for page in pages[1:]:
        page.say(type="show", branch=0)
    turns(worker, 4)
    pages[0].say(type="masks", branch=0, future=0)
    served = turns(worker, CHUNK + 1)
    assert served.count(pages[0].session) >= CHUNK


def test_a_page_that_has_its_first_masks_waits_for_its_turn() -> None:
    page = Page().open(settings={"steps": 40})
    page.say(type="masks", branch=0, future=0)
    urgent = []
    while not page.of("masks"):
        page.session.step()
        urgent.append(page.session.urgent)
    assert all(urgent[:-1])
    assert not urgent[-1]
    page.session.step()
    assert page.session.others
    assert not page.session.urgent
    page.say(type="masks", branch=0, future=0)
    assert page.session.urgent


def test_a_page_that_leaves_is_closed_at_once() -> None:
    page = Page()
    worker = worker_for(page.session)
    page.say(type="open", model="small", world="noise")
    worker.leave(page.session)
    assert not page.session.busy
