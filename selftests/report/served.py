"""A project with runs, and its pages as `view` serves them, for the selftests of `view`."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from made_runs import FAILED, PASSED, TEXT, made_run, record

from conformance.cli.viewing.server import ViewServer
from conformance.cli.viewing.site import Site
from conformance.settings import Overlay
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import Run
from conformance.storage.snapshots import Store

TOKEN = "a-token-of-the-selftests"  # noqa: S105 - it admits to a server of a selftest
HOSTILE = "NumericsError: <script>document.title = 'taken'</script>"
CHANGED = TEXT.replace("11L", "12L")


class Project:
    """Two runs. In the second one, the code of flip/changed differs from what is stored, and flip/wrong fails."""

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, Store(root / "ops" / "expected_code")
        self.store.merge({case: {("2.13", "cpu_avx2"): TEXT} for case in ("flip/changed", "flip/wrong")})
        runs, place = root / ".conformance" / "runs", {"store": str(self.store.root)}
        equal = [record(case, "cpu_avx2", **place) for case in ("flip/changed", "flip/wrong")]
        changed = {"numerics": PASSED, "code": CheckResult(Outcome.FAILED, "CodeError: differs")}
        wrong = CheckResult(Outcome.FAILED, HOSTILE)
        self.before = made_run(runs / "before", equal)
        self.after = made_run(
            runs / "after",
            [
                record("flip/changed", "cpu_avx2", text=CHANGED, checks=changed, **place),
                record("flip/wrong", "cpu_avx2", wrong, **place),
            ],
        )
        (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def stored(self) -> str | None:
        snapshot = self.store.read("flip/changed")
        return snapshot.text("2.13", "cpu_avx2") if snapshot else None

    def fail_anew(self) -> Run:
        """Writes an item of the run `before` again, with wrong numerics."""
        self.before.write_item(record("flip/wrong", "cpu_avx2", FAILED, store=str(self.store.root)))
        return self.before


class Served:
    """A running server, and a client of it."""

    def __init__(self, server: ViewServer) -> None:
        self.server, self.address, self.host = server, server.address, server.hosts[0]

    def send(self, path: str, form: dict[str, Any] | None = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        """A GET, or the POST of a form, below the token; the status, the body and the headers of the answer."""
        return self.send_raw(f"/{TOKEN}/{path}", form, **headers)

    def send_raw(self, path: str, form: dict[str, Any] | None, **headers: str) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=300)
        kind = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        body = urlencode(form, doseq=True) if form is not None else None
        with contextlib.closing(connection):
            connection.request("GET" if form is None else "POST", path, body, {**kind, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())


@contextlib.contextmanager
def served(root: Path, *, can_accept: bool = False) -> Iterator[Served]:
    options = argparse.Namespace(overlay=Overlay())
    site = Site(root, options, can_accept=can_accept)
    with ViewServer(0, TOKEN, site.answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Served(server)
        finally:
            server.shutdown()
            thread.join()
            site.compiling.close()
