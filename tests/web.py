"""A local web server for tests that can be told to misbehave."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


class Quiet(ThreadingHTTPServer):
    """A server that prints no traceback when a client hangs up, into the output of another test."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@dataclass
class Site:
    """Files by their paths, and how they are served."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    """Whether parts of files are sent when they are asked for."""
    breaks: list[int] = field(default_factory=list)
    """After how many bytes the answers break off, in order; the others do not."""
    answers: list[int] = field(default_factory=list)
    """Status codes of the first requests, in place of a file."""
    delay: float = 0.0
    """Seconds between the bytes of a body."""
    slow_header: bool = False
    """Whether a header is sent that does not end."""
    lengths: bool = True
    """Whether the length of a file is told."""
    said_length: int | None = None
    """A false length."""
    redirect: str | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Paths, and the ranges of them, that were asked for."""
    address: str = ""
    over: Event = field(default_factory=Event)


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve a site."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, site)

        def log_message(self, *args: object) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def answer(to: BaseHTTPRequestHandler, site: Site) -> None:
    """Answer a request."""
    site.asked.append((to.path, to.headers.get("Range")))
    body = site.files.get(to.path)
    if site.answers:
        return to.send_error(site.answers.pop(0))
    if site.redirect is not None:
        to.send_response(302)
        to.send_header("Location", site.redirect)
        return to.end_headers()
    if body is None:
        return to.send_error(404)
    first = re.fullmatch(r"bytes=(\d+)-", to.headers.get("Range", "")) if site.ranges else None
    start = int(first[1]) if first else 0
    if start >= len(body) > 0 and first:
        return to.send_error(416)
    to.send_response(206 if first else 200)
    if first:
        to.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
    if site.lengths:
        to.send_header("Content-Length", str(site.said_length or len(body) - start))
    if site.slow_header:
        to.flush_headers()
        while not site.over.wait(0.02):
            to.wfile.write(b"x")
        return None
    to.end_headers()
    end = start + site.breaks.pop(0) if site.breaks else len(body)
    if not site.delay:
        to.wfile.write(body[start:end])
    for at in range(start, end) if site.delay else ():
        to.wfile.write(body[at : at + 1])
        time.sleep(site.delay)
    to.close_connection = True
    return None
