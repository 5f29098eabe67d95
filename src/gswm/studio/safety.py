"""Access control: only pages of this server, opened with the token, may use it.

Other users of the machine can reach the loopback interface, but lack the token. Pages of other
sites can send requests to it: the Origin header reveals their site, and the Host header reveals DNS
names that were made to point to the loopback interface.
"""

import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
NOTEBOOKS = "http://localhost:* http://127.0.0.1:* https://localhost:* vscode-webview:"


@dataclass(frozen=True)
class Rules:
    """Requirements for a request."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """The token that the URL must contain."""
    names: tuple[str, ...] | None = LOOPBACK
    """Allowed host names; None for any."""
    frames: str = "'none'"
    """The pages that may embed the studio."""

    def refusal(self, scope: Scope) -> str | None:
        """The reason why a request is refused, or None."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.names is not None and hostname(host) not in self.names:
            return "unknown host name: open the address that the studio printed"
        origin = headers.get("origin")
        if origin is not None and netloc(origin) != host:
            return "pages of other sites cannot use the studio"
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        given = query.get("token", [""])[0]
        known = secrets.compare_digest(given.encode(), self.token.encode())
        if not known and not scope["path"].startswith("/page/"):
            return "the token is missing or wrong: open the address that the studio printed"
        return None

    def policy(self) -> str:
        """The content security policy: load nothing from other sites."""
        return "; ".join(
            [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "img-src 'self' data: blob:",
                "connect-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                f"frame-ancestors {self.frames}",
            ]
        )


def netloc(origin: str) -> str | None:
    """Host and port of an Origin header; None if it is not an address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def hostname(host: str) -> str:
    """A Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class Guard:
    """Middleware that enforces the rules, and adds the policy to every response."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app, self.rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refused = self.rules.refusal(scope)
        if refused is None:
            await self.app(scope, receive, self.with_policy(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refused})
        else:
            answer = PlainTextResponse(f"{refused}\n", status_code=403)
            await answer(scope, receive, self.with_policy(send))

    def with_policy(self, send: Send) -> Send:
        """Wrap `send` to add the policy to the headers of a response."""

        async def sends(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = self.rules.policy()
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers["Cache-Control"] = "no-store"
            await send(message)

        return sends
