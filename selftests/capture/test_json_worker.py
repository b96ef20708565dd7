"""A worker process: its answers, its end, its time limit and its stderr."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from conformance.capture import json_worker
from conformance.capture.json_worker import JsonWorker, WorkerEndedError, WorkerError, WorkerTimeoutError

MODULE = """
import os, subprocess, sys, time
from conformance.capture.json_worker import claim_stdout, serve

def answer(request):
    print("printed for", request["do"])
    if request["do"] == "crash":
        print("last words", file=sys.stderr, flush=True)
        os.abort()
    if request["do"] == "exit":
        os._exit(3)
    if request["do"] == "hang":
        child = subprocess.Popen(["sleep", "99"])
        with open(request["pid_file"], "w") as file:
            file.write(str(child.pid))
        print("waiting for a child", file=sys.stderr, flush=True)
        child.wait()
    return {"done": request["do"], "process": os.getpid()}

answers = claim_stdout()
if "SLOW_START" in os.environ:
    time.sleep(99)
serve(answers, answer)
"""


@pytest.fixture
def make_worker(tmp_path):
    (tmp_path / "answering.py").write_text(MODULE)
    workers = []

    def make(variables=None, **options):
        path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
        variables = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **(variables or {})}
        workers.append(JsonWorker("answering", os.environ | variables, **options))
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()


def is_alive(pid: int) -> bool:
    """A zombie, which nobody has waited for yet, is not alive."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and re.search(r"\) (\w)", stat.read_text())[1] not in "ZX"


def test_one_process_answers_all_requests(make_worker):
    worker = make_worker()
    first, second = (worker.ask({"do": name}, 60) for name in ("one", "two"))
    assert (first["done"], second["done"]) == ("one", "two")
    assert first["process"] == second["process"]


def test_a_crash_is_reported_with_stderr_and_the_next_request_starts_a_new_process(make_worker):
    worker = make_worker()
    before = worker.ask({"do": "one"}, 60)
    with pytest.raises(WorkerEndedError, match=r"^ended by SIGABRT; the last lines of its stderr:\n(.*\n)*last words"):
        worker.ask({"do": "crash"}, 60)
    assert worker.ask({"do": "two"}, 60)["process"] != before["process"]
    with pytest.raises(WorkerEndedError, match=r"^ended with status 3; the last lines of its stderr:\nprinted for two"):
        worker.ask({"do": "exit"}, 60)


def test_a_worker_that_hangs_is_killed_with_its_children(make_worker, tmp_path):
    worker = make_worker()
    process = worker.ask({"do": "one"}, 60)["process"]
    start = time.monotonic()
    with pytest.raises(WorkerTimeoutError, match=r"^no answer within 1 s; (.*\n)*waiting for a child$"):
        worker.ask({"do": "hang", "pid_file": str(tmp_path / "pid")}, 1)
    assert time.monotonic() - start < 30
    time.sleep(0.2)
    assert not is_alive(process)
    assert not is_alive(int((tmp_path / "pid").read_text()))
    assert worker.ask({"do": "two"}, 60)["done"] == "two"


def test_an_interrupt_kills_the_worker(make_worker, monkeypatch):
    worker = make_worker()
    process = worker.ask({"do": "one"}, 60)["process"]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(json_worker.select, "select", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.ask({"do": "two"}, 60)
    assert not is_alive(process)
    assert worker.ask({"do": "three"}, 60)["done"] == "three"


def test_a_worker_that_is_never_ready(make_worker, monkeypatch):
    monkeypatch.setattr(json_worker, "START_LIMIT", 1.0)
    with pytest.raises(WorkerError, match=r"^not ready within 1 s; it wrote nothing to stderr$"):
        make_worker({"SLOW_START": "1"}).ask({"do": "one"}, 60)


def test_stderr_is_echoed_where_wanted(make_worker, capsys):
    make_worker().ask({"do": "one"}, 60)
    assert capsys.readouterr().err == ""
    worker = make_worker(echo_stderr=True)
    for name in ("two", "three"):
        worker.ask({"do": name}, 60)
        assert capsys.readouterr().err == f"printed for {name}\n"
