"""The server: access control, responses, and limits."""

import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from studio import catalog

from gswm.core.errors import UserError
from gswm.data.episode import Episodes
from gswm.studio import server, uploads
from gswm.studio.catalog import Catalog
from gswm.studio.protocol import decode
from gswm.studio.safety import Rules
from gswm.studio.server import PAGE, FirstView, Server, StudioApp, rules_for
from gswm.viz.formats import save_video

HOME, TOKEN = "http://127.0.0.1:8765", "token=secret"
TALK, UPLOAD = f"ws://127.0.0.1:8765/session?{TOKEN}", f"/upload?{TOKEN}&model="
RULES = Rules("secret")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with guarded(RULES) as made:
        yield made


def guarded(rules: Rules, base: str = HOME) -> TestClient:
    return serving(catalog(), FirstView("small", "noise"), rules, base)


def serving(shelf: Catalog, start: FirstView, rules: Rules = RULES, base: str = HOME) -> TestClient:
    return TestClient(StudioApp(shelf, start, rules).app, base_url=base)


def opening(**settings: object) -> str:
    return json.dumps({"type": "open", "model": "small", "world": "noise", "settings": settings})


def heard(socket, kind: str) -> dict:
    for _ in range(200):
        head, _ = decode(socket.receive_bytes())
        if head["type"] == kind:
            return head
    raise AssertionError(f"no {kind} was heard")


def test_the_page_asks_for_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get(f"/?{TOKEN}")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    for file in PAGE.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
        assert client.get(f"/page/{file.name}").status_code == 200


def test_the_page_is_short() -> None:
    assert sum(len(file.read_text().splitlines()) for file in PAGE.iterdir()) < 2000


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "192.168.0.7"])
def test_another_name_is_refused(client: TestClient, host: str) -> None:
    assert client.get(f"/?{TOKEN}", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:80"])
def test_the_loopback_has_any_port(client: TestClient, host: str) -> None:
    assert client.get(f"/?{TOKEN}", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1", "x", "http://[::1", "http://[", "//]"],
)
def test_a_page_of_another_site_cannot_talk(client: TestClient, origin: str) -> None:
    headers = {"origin": origin}
    assert client.post(UPLOAD, content=b"x", headers=headers).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(TALK, headers=headers),
    ):
        pass


@pytest.mark.parametrize(
    ("host", "name"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("0.0.0.0", "machine.example")],
)
@pytest.mark.parametrize("notebook", [False, True])
def test_nobody_is_served_without_the_token(host: str, name: str, notebook: bool) -> None:
    rules = rules_for(host, notebook)
    with guarded(rules, f"http://{name}:8765") as client:
        for query in ("", "?token=", "?token=wrong", f"?token={rules.token[:-1]}", "?Token=x"):
            assert client.get(f"/{query}").status_code == 403
            assert client.post(f"/upload{query}", content=b"x").status_code == 403
            with (
                pytest.raises(WebSocketDisconnect),
                client.websocket_connect(f"ws://{name}:8765/session{query}"),
            ):
                pass
        assert client.get(f"/?token={rules.token}").status_code == 200
        with client.websocket_connect(f"ws://{name}:8765/session?token={rules.token}") as socket:
            assert heard(socket, "hello")


def test_each_server_has_a_token_of_its_own() -> None:
    tokens = {rules_for("127.0.0.1").token for _ in range(3)} | {Rules().token}
    assert len(tokens) == 4
    assert min(map(len, tokens)) >= 32


@pytest.mark.parametrize(
    "path", ["/page/../server.py", "/page/%2e%2e/server.py", "/page//etc/passwd"]
)
def test_no_path_leads_out_of_the_page(client: TestClient, path: str) -> None:
    assert client.get(f"{path}?{TOKEN}").status_code == 404


def test_a_bad_message_gets_an_error_and_leaves_the_session_standing(client: TestClient) -> None:
    with client.websocket_connect(TALK) as socket:
        assert heard(socket, "hello")["worlds"] == ["noise"]
        for bad in ("{", "[]", '{"type": "edit"}', '{"type": "show", "branch": 3}'):
            socket.send_text(bad)
            assert heard(socket, "error")["line"]
        socket.send_bytes(b"\xff\xfe")
        assert heard(socket, "error")["line"]
        digits = "9" * 4000
        change = f'{{"kind": "move", "id": 0, "xy": [{digits}, 0]}}'
        socket.send_text(f'{{"type": "edit", "branch": 0, "frame": 0, "change": {change}}}')
        assert "xy" in heard(socket, "error")["line"]
        socket.send_text(opening(steps=0))
        assert heard(socket, "error")["of"] == "open"
        socket.send_text(opening(given=2, steps=2, futures=1))
        assert heard(socket, "done")["branch"] == 0


def test_two_tabs_are_served_in_turn(client: TestClient) -> None:
    with (
        client.websocket_connect(TALK) as one,
        client.websocket_connect(TALK) as two,
    ):
        for socket in (one, two):
            socket.send_text(opening(given=2, steps=4, futures=2))
        for socket in (two, one):
            assert heard(socket, "done")["kind"] == "futures"


def test_too_many_tabs_are_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_TABS", 0)
    with client.websocket_connect(TALK) as socket:
        with pytest.raises(WebSocketDisconnect) as caught:
            socket.receive_bytes()
        assert caught.value.code == 1013


def test_the_first_view_is_prepared_before_a_page_is_there() -> None:
    shelf, prepared = Catalog(), threading.Event()
    shelf.add_model("small", catalog().model("small"), "noise", 4)

    def source(index: int) -> Episodes:
        prepared.set()
        return catalog().episode("noise", index, 64)

    shelf.add_source("noise", source)
    with serving(shelf, FirstView("small", "noise")):
        assert prepared.wait(10)


def test_an_episode_that_cannot_be_read_leaves_no_lock() -> None:
    shelf = Catalog()

    def missing(index: int, size: int) -> Episodes:
        raise UserError(f"there is no episode {index}")

    shelf.sources["gone"] = missing
    for index in range(3):
        with pytest.raises(UserError, match="no episode"):
            shelf.episode("gone", index, 64)
    assert not shelf.making


def test_a_video_is_uploaded_and_opened(client: TestClient) -> None:
    file = io.BytesIO()
    frames = [Image.new("RGB", (40, 30), (50 * i, 0, 0)) for i in range(3)]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    answer = client.post(f"{UPLOAD}small", content=file.getvalue())
    assert answer.json()["frames"] == 3
    with client.websocket_connect(TALK) as socket:
        message = {"type": "open", "model": "small", "world": answer.json()["name"]}
        socket.send_text(json.dumps(message | {"settings": {"steps": 2, "futures": 1}}))
        assert heard(socket, "opened")["settings"]["given"] == 3


@pytest.mark.parametrize(("video_fps", "frames"), [(None, 2), (0.0, 4), (10.0, 4)])
def test_an_upload_is_taken_as_the_videos_of_the_training_were(
    video_fps: float | None, frames: int, tmp_path: Path
) -> None:
    shelf = Catalog(video_fps=video_fps)
    shelf.models["timed"] = replace(catalog().models["small"], videos={"fps": 5.0})
    save_video(tmp_path / "own.mp4", np.zeros((4, 64, 64, 3), np.uint8), 10)
    client = serving(shelf, FirstView("timed", "noise"))
    answer = client.post(f"{UPLOAD}timed", content=(tmp_path / "own.mp4").read_bytes())
    assert answer.json()["frames"] == frames
    assert answer.json()["fps"] == {None: 5.0, 0.0: None}.get(video_fps, video_fps)


def test_an_upload_is_for_the_default_weights_unless_the_model_is_for_videos(
    small_clips: Path, tmp_path: Path
) -> None:
    shelf = Catalog()
    shelf.add_installed()
    shelf.add_weights("ball", str(tiny.ship(tmp_path, "single-ball")))
    shelf.models["mine"] = replace(shelf.models["ball"], world="fits/mine/video.hdf5")
    assert [shelf.for_video(name) for name in ("clips", "mine")] == ["clips", "mine"]
    save_video(tmp_path / "own.mp4", np.zeros((2, 64, 96, 3), np.uint8), 10)
    client = serving(shelf, FirstView("ball", "single-ball"))
    answer = client.post(f"{UPLOAD}ball", content=(tmp_path / "own.mp4").read_bytes())
    assert answer.json()["model"] == "clips"
    assert shelf.uploads[answer.json()["name"]].shape == (1, 2, 3, 128, 128)


def test_without_the_default_weights_an_upload_is_for_the_model_that_is_shown(
    no_weights: Path,
) -> None:
    tiny.ship(no_weights, "single-ball")
    shelf = Catalog()
    shelf.add_installed()
    assert shelf.for_video("single-ball") == "single-ball"


def test_an_upload_that_is_no_video_is_one_line(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = client.post(f"{UPLOAD}small", content=b"no video")
    assert answer.status_code == 400
    assert "video format is not supported" in answer.json()["error"]
    assert "no model" in client.post(f"{UPLOAD}/etc", content=b"x").json()["error"]
    monkeypatch.setattr(uploads, "MOST_BYTES", 10)
    assert "at most" in client.post(f"{UPLOAD}small", content=bytes(11)).json()["error"]


def test_uploads_that_stall_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Server(StudioApp(catalog(), FirstView("small", "noise"), RULES)).start()
    head = f"POST {UPLOAD}small HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n"
    stalled = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(4)]
    try:
        for each in stalled:
            each.sendall(f"{head}Content-Length: 1000\r\n\r\nGIF89a".encode())
        with httpx.Client(base_url=f"http://127.0.0.1:{made.port}", timeout=60) as client:
            while made.studio.arrivals < 4:
                time.sleep(0.01)
            answer = client.post(f"{UPLOAD}small", content=still())
            assert answer.json()["frames"] == 1
            monkeypatch.setattr(server, "MOST_ARRIVALS", 4)
            answer = client.post(f"{UPLOAD}small", content=still())
            assert "being uploaded" in answer.json()["error"]
    finally:
        for each in stalled:
            each.close()
        made.stop()


def still() -> bytes:
    """A GIF of one frame."""
    file = io.BytesIO()
    Image.new("RGB", (40, 30)).save(file, "GIF")
    return file.getvalue()


@settings(max_examples=10)
@given(said=st.lists(st.text(max_size=60) | st.binary(max_size=60), max_size=6))
def test_any_messages_leave_the_session_standing(client: TestClient, said: list) -> None:
    with client.websocket_connect(TALK) as socket:
        for message in said:
            send = socket.send_text if isinstance(message, str) else socket.send_bytes
            send(
                message.encode("utf-8", "replace").decode() if isinstance(message, str) else message
            )
        socket.send_text(opening(given=1, steps=1, futures=1))
        assert heard(socket, "done")["branch"] == 0


def test_a_server_in_a_thread_starts_and_ends() -> None:
    made = Server(StudioApp(catalog(), FirstView("small", "noise"), RULES)).start()
    assert made.address == f"http://127.0.0.1:{made.port}/?{TOKEN}"
    made.stop()
    for _ in range(500):
        if not made.thread.is_alive():
            return
        time.sleep(0.02)
    raise AssertionError("it did not end")


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("0.0.0.0", socket.gethostname()),
        ("0", socket.gethostname()),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_the_address_names_a_host_that_a_browser_can_reach(host: str, shown: str) -> None:
    made = Server(StudioApp(catalog(), FirstView("small", "noise"), RULES), host)
    made.socket.close()
    assert made.address == f"http://{shown}:{made.port}/?{TOKEN}"


def test_an_empty_host_is_refused() -> None:
    with pytest.raises(UserError, match="--host is empty"):
        server.listening("", 0)
