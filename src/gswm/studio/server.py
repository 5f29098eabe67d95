"""The server: one page, one WebSocket per tab, and an endpoint for uploads."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gswm.core.errors import UserError
from gswm.core.words import install
from gswm.studio import uploads
from gswm.studio.catalog import Catalog
from gswm.studio.protocol import LONGEST, MessageError, encode, parse
from gswm.studio.session import Session
from gswm.studio.worker import Worker

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import FileResponse, JSONResponse, Response
    from starlette.routing import Mount, Route, WebSocketRoute
    from starlette.staticfiles import StaticFiles
    from starlette.websockets import WebSocket, WebSocketDisconnect

    from gswm.studio.safety import LOOPBACK, NOTEBOOKS, Guard, Rules
except ImportError as error:
    raise UserError(f"the studio needs more packages: {install('studio')}") from error

PAGE = Path(__file__).parent / "page"
MOST_TABS = 16
MOST_ARRIVALS, MOST_DECODERS = 16, 2
"""Maximum number of videos to receive and to decode in parallel."""
UNSENT = 8 << 20
"""Maximum bytes in the queue of a page that reads slowly."""


@dataclass(frozen=True)
class FirstView:
    """The initial view of a page."""

    model: str
    world: str
    view: dict[str, Any] | None = None


class StudioApp:
    """The application, and the state that its pages share."""

    def __init__(self, catalog: Catalog, start: FirstView, rules: Rules | None = None) -> None:
        self.catalog, self.start = catalog, start
        self.rules = rules or Rules()
        self.doorway: Path | None = None
        """The page that redirects the browser; deleted once the studio is open."""
        self.worker = Worker()
        self.tabs = self.arrivals = 0
        self.decoders = asyncio.Semaphore(MOST_DECODERS)
        routes = [
            Route("/", self.index),
            Route("/upload", self.upload, methods=["POST"]),
            WebSocketRoute("/session", self.session),
            Mount("/page", StaticFiles(directory=PAGE)),
        ]
        self.app = Guard(Starlette(routes=routes, lifespan=self.lifespan), self.rules)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Run the worker as long as the server."""
        self.worker.start()
        self.catalog.prepare(self.start.model, self.start.world, 0)  # while the browser starts
        try:
            yield
        finally:
            self.worker.stop()

    async def index(self, _: Request) -> Response:
        """The page."""
        return FileResponse(PAGE / "index.html")

    async def upload(self, request: Request) -> Response:
        """Receive a video; respond with its name and model, or with an error."""
        shown = request.query_params.get("model", "")
        try:
            uploads.check_length(request.headers.get("content-length", "0"))
            model = await asyncio.to_thread(self.catalog.for_video, shown)
            cut = await asyncio.to_thread(self.catalog.cut, model)
            with self.arrival():
                video, more = await uploads.receive(request.stream(), cut, self.decoders)
        except UserError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except ClientDisconnect:
            return Response(status_code=400)
        about = {"frames": video.shape[1], "more": more, "fps": cut.fps, "model": model}
        return JSONResponse({"name": self.catalog.add_upload(video), **about})

    @contextmanager
    def arrival(self) -> Iterator[None]:
        """Count an upload; refuse too many at once, since each takes disk space."""
        if self.arrivals >= MOST_ARRIVALS:
            raise UserError("too many videos are being uploaded: wait for one of them")
        self.arrivals += 1
        try:
            yield
        finally:
            self.arrivals -= 1

    async def session(self, socket: WebSocket) -> None:
        """Serve one tab while it is open."""
        await socket.accept()
        if self.doorway is not None:
            self.doorway.unlink(missing_ok=True)
        if self.tabs >= MOST_TABS:
            await socket.close(1013, "too many tabs are open: close one")
            return
        self.tabs += 1
        outbox = Outbox(asyncio.get_running_loop(), self.worker.notify)
        session = Session(self.catalog, outbox.put, outbox.ready, self.worker.notify)
        self.worker.join(session)
        writes = asyncio.create_task(outbox.write(socket))
        try:
            hello = self.catalog.listed() | {"device": str(self.catalog.device)}
            start = {"model": self.start.model, "world": self.start.world, "view": self.start.view}
            outbox.put(encode({"type": "hello", **hello, "start": start}))
            await self.read(socket, session, outbox)
        except (WebSocketDisconnect, RuntimeError):
            pass  # the tab was closed
        finally:
            self.tabs -= 1
            writes.cancel()
            await asyncio.to_thread(self.worker.leave, session)
            with suppress(asyncio.CancelledError, Exception):
                await writes

    async def read(self, socket: WebSocket, session: Session, outbox: "Outbox") -> None:
        """Read the requests of a page until it is closed."""
        while True:
            received = await socket.receive()
            if received["type"] == "websocket.disconnect":
                return
            try:
                message = parse(received.get("text") or received.get("bytes") or b"")
            except UserError as error:
                await outbox.drained()
                of = error.kind if isinstance(error, MessageError) else ""
                outbox.put(encode({"type": "error", "line": str(error), "request": 0, "of": of}))
                continue
            while not session.put(message):
                await asyncio.sleep(0.02)
            self.worker.notify()


class Outbox:
    """The queue of messages to a page, filled by the worker thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, notify: Callable[[], None]) -> None:
        self.loop, self.notify = loop, notify
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.unsent = 0
        self.lock = threading.Lock()

    def put(self, message: bytes) -> None:
        """Queue a message."""
        with self.lock:
            self.unsent += len(message)
        with suppress(RuntimeError):  # the server is shutting down
            self.loop.call_soon_threadsafe(self.queue.put_nowait, message)

    def ready(self) -> bool:
        """Whether the queue has room."""
        return self.unsent < UNSENT

    async def drained(self) -> None:
        """Wait until the queue has room."""
        while not self.ready():
            await asyncio.sleep(0.02)

    async def write(self, socket: WebSocket) -> None:
        """Send queued messages in order."""
        while True:
            message = await self.queue.get()
            await socket.send_bytes(message)
            with self.lock:
                self.unsent -= len(message)
            self.notify()


def listening(host: str, port: int) -> socket.socket:
    """Open a listening socket; without a requested port, try others if one is taken."""
    if not host:
        raise UserError(
            "--host is empty: use an address, or 0.0.0.0 for all addresses of this machine"
        )
    reason = ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for each in [port] if port else [*range(8765, 8785), 0]:
        found = socket.socket(family)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, each))
            found.listen()  # reserves the port, and lets early requests wait
            return found
        except OSError as error:
            found.close()
            reason = (error.strerror or str(error)).lower()
    raise UserError(f"cannot listen at {host}, port {port or 'any'}: {reason}")


class Server:
    """A studio at an address."""

    def __init__(self, studio: StudioApp, host: str = "127.0.0.1", port: int = 0) -> None:
        self.studio, self.socket = studio, listening(host, port)
        bound, self.port = self.socket.getsockname()[:2]
        shown = host if bound not in ("0.0.0.0", "::") else socket.gethostname()
        shown = f"[{shown}]" if ":" in shown else shown
        self.host = f"{shown}:{self.port}"
        self.address = self.url("/")
        config = uvicorn.Config(
            studio.app,
            log_level="warning",
            access_log=False,
            ws_max_size=LONGEST,
            ws_max_queue=8,
            ws_per_message_deflate=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.run, name="gswm-studio-server", daemon=True)

    def url(self, path: str, scheme: str = "http") -> str:
        """The URL of a path, with the token."""
        return f"{scheme}://{self.host}{path}?token={self.studio.rules.token}"

    def run(self) -> None:
        """Serve until interrupted."""
        self.server.run(sockets=[self.socket])

    def start(self) -> "Server":
        """Serve in a thread; returns once the server is running."""
        self.thread.start()
        while self.thread.is_alive() and not self.server.started:
            self.thread.join(0.01)
        return self

    def stop(self) -> None:
        """Stop the server from another thread."""
        self.server.should_exit = True


def rules_for(host: str, notebook: bool = False) -> Rules:
    """Rules with a new token; only loopback names are allowed on the loopback interface."""
    names = LOOPBACK if host in LOOPBACK else None
    return Rules(names=names, frames=NOTEBOOKS if notebook else "'none'")
