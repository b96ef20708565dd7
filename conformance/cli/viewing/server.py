"""The server of `view`: it listens on the loopback alone, and admits only requests that know its token.

A page of another site can send requests here too. So the server refuses another Host (a name that was made to point
here), another Origin, and whoever does not know the token.
"""

from __future__ import annotations

import hmac
import socketserver
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

LOOPBACK = "127.0.0.1"
#: Bytes of the largest form.
LARGEST_FORM = 200_000
#: Seconds that a client may take to send its request.
_PATIENCE = 60.0
#: What a page may load and do: nothing but its own style, and to send forms here.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # the address has the token; with no-referrer, a form would have no Origin
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Request:
    """`path`: after the token, its parts decoded. `form`: of the address, or of a POST. A field may be repeated."""

    is_post: bool
    path: tuple[str, ...]
    form: Mapping[str, list[str]] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """The first value of a field; "" without one."""
        return self.form.get(name, [""])[0]


@dataclass(frozen=True)
class Answer:
    """`location`: where the browser is sent, below the token. `policy`: the content security policy."""

    body: str
    status: HTTPStatus = HTTPStatus.OK
    location: str | None = None
    policy: str = POLICY
    kind: str = "text/html"


class ViewServer(ThreadingHTTPServer):
    """Answers each request in a thread. `port`: 0 for any free one. Raises OSError for one that is taken."""

    daemon_threads = True

    def __init__(self, port: int, token: str, answer: Callable[[Request], Answer]) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.token, self.answer = token, answer

    def server_bind(self) -> None:
        """Leaves out the look-up of the host's name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The values of Host that name this server."""
        return tuple(f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost"))

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing of a browser that went away."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    server_version, sys_version = "conformance", ""
    timeout = _PATIENCE
    _policy = POLICY

    def do_GET(self) -> None:
        if self._is_admitted():
            if len(self._parts()) == 1:  # without the slash, the links of the page would lead elsewhere
                self._send(Answer("", HTTPStatus.SEE_OTHER, location=""))
                return
            self._answer(Request(is_post=False, path=self._path(), form=parse_qs(urlsplit(self.path).query)))

    def do_POST(self) -> None:
        if not self._is_admitted():
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "a form has to say its length")
        elif len(length) > 9 or int(length) > LARGEST_FORM:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a form has at most {LARGEST_FORM:,} bytes")
        elif self.headers.get_content_type() != "application/x-www-form-urlencoded":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send a form: application/x-www-form-urlencoded")
        else:
            text = self.rfile.read(int(length)).decode(errors="replace")
            self._answer(Request(is_post=True, path=self._path(), form=parse_qs(text)))

    def end_headers(self) -> None:
        """Adds what each answer has, also those that http.server makes."""
        for name, value in {**_HEADERS, "Content-Security-Policy": self._policy}.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Logs nothing: the terminal stays one line."""

    def _is_admitted(self) -> bool:
        """Answers a request that is refused."""
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        own = self.server.hosts
        if len(hosts) != 1 or hosts[0].lower() not in own:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, f"this server is {' or '.join(own)}, and no other host")
        elif any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            self._refuse(HTTPStatus.FORBIDDEN, "the request comes from a page of another origin")
        elif not hmac.compare_digest(self._parts()[0].encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "the token is missing or wrong: open the address that `view` printed")
        else:
            return True
        return False

    def _parts(self) -> list[str]:
        return urlsplit(self.path).path.removeprefix("/").split("/")

    def _path(self) -> tuple[str, ...]:
        return tuple(map(unquote, filter(None, self._parts()[1:])))

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._send(Answer(f"{reason}\n", status, kind="text/plain"))

    def _answer(self, request: Request) -> None:
        self._send(self.server.answer(request))

    def _send(self, answer: Answer) -> None:
        body = answer.body.encode(errors="backslashreplace")
        self._policy = answer.policy
        self.send_response(answer.status)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if answer.location is not None:
            self.send_header("Location", f"/{self.server.token}/{answer.location}")
        self.end_headers()
        self.wfile.write(body)
