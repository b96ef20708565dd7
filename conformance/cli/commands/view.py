"""`view`: a local page over the runs of this project."""

from __future__ import annotations

import argparse
import contextlib
import errno
import secrets
import signal
from collections.abc import Iterator
from typing import Any

from conformance.cases.lookup import project_here
from conformance.cli.viewing.server import LOOPBACK, ViewServer
from conformance.cli.viewing.site import Site
from conformance.errors import ConformanceError

DESCRIPTION = """\
Serve a page over the runs of this project, for a browser on this machine: their
reports, two of them compared, a search, a review of changed code, and the
kernels of a function that you paste. Who knows the address can run code as you.
It stores nothing without --accept. Ctrl-C ends it."""

EXAMPLES = """\
examples:
  python -m conformance view                    read-only; prints the address
  python -m conformance view --accept           the page may store accepted code
  ssh -L 8000:127.0.0.1:8000 there              look at another machine,
  python -m conformance view --port 8000        which runs this"""


class ViewError(ConformanceError, ValueError):
    """The page cannot be served."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accept", action="store_true", help="let the page accept and reject causes, as review does")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port; default: any free one")


def run(arguments: argparse.Namespace) -> int:
    """Raises ViewError for a port that cannot be used."""
    if not 0 <= arguments.port < 2**16:
        raise ViewError(f"--port {arguments.port}: a port is a number from 1 to 65535")
    site = Site(project_here().root, arguments, can_accept=arguments.accept)
    try:
        server = ViewServer(arguments.port, secrets.token_urlsafe(24), site.answer)
    except OSError as error:
        taken = "it is taken" if error.errno == errno.EADDRINUSE else error.strerror
        raise ViewError(
            f"--port {arguments.port} of {LOOPBACK} cannot be used: {taken}; leave it out for any free one"
        ) from None
    with server, _ended_as_by_ctrl_c():
        try:
            print(f"{server.address}  (Ctrl-C ends)", flush=True)
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nended")
        finally:
            site.compiling.close()
    return 0


@contextlib.contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Inside, a SIGTERM or the end of the terminal ends what is compiled too, as a Ctrl-C does."""

    def end(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
