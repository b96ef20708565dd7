"""`view` without a browser: what it serves, what it refuses, and what it stores."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_runs import TEXT, made_run, record
from served import CHANGED, HOSTILE, TOKEN, Project, Served, served

from conformance.cli.main import main
from conformance.cli.viewing.pasted import PastedError, function_word
from conformance.storage.runs import link_last_run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def reader(project: Project) -> Iterator[Served]:
    with served(project.root) as started:
        yield started


@pytest.fixture
def writer(project: Project) -> Iterator[Served]:
    with served(project.root, can_accept=True) as started:
        yield started


def _causes(page: str) -> list[str]:
    return re.findall(r'name="cause" value="([0-9a-f]+)"', page)


def _cause(page: str) -> str:
    return _causes(page)[0]


def test_each_page_answers_with_a_policy(reader: Served) -> None:
    for path in ("", "run/after", "review/after", "compare?a=before&b=after", "search?q=flip", "kernels", "nosuch"):
        status, body, headers = reader.send(path)
        assert status == (404 if path == "nosuch" else 200), path
        assert body.startswith("<!doctype html>"), path
        assert "default-src 'none'" in headers["Content-Security-Policy"], path
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"], path
        assert headers["Cache-Control"] == "no-store"
    assert "script-src 'sha256-" in reader.send("run/after")[2]["Content-Security-Policy"]
    assert "script-src" not in reader.send("review/after")[2]["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("path", "headers", "status", "said"),
    [
        (f"/{TOKEN}/", {"Host": "evil.example"}, 421, "no other host"),
        (f"/{TOKEN}/", {"Host": "127.0.0.1"}, 421, "no other host"),
        (f"/{TOKEN}/", {"Origin": "http://evil.example"}, 403, "another origin"),
        (f"/{TOKEN}/", {"Origin": "null"}, 403, "another origin"),
        ("/", {}, 403, "token is missing or wrong"),
        (f"/{TOKEN}x/", {}, 403, "token is missing or wrong"),
        (f"/{TOKEN[:-1]}/run/after", {}, 403, "token is missing or wrong"),
    ],
)
def test_it_refuses_strangers(reader: Served, path: str, headers: dict[str, str], status: int, said: str) -> None:
    for form in (None, {"code": "lambda x: x"}):
        got, body, answered = reader.send_raw(path, form, **headers)
        assert (got, said in body) == (status, True)
        assert "default-src 'none'" in answered["Content-Security-Policy"]


def test_it_serves_nothing_outside_of_the_runs(reader: Served, project: Project, tmp_path: Path) -> None:
    (project.before.folder.parent / "out").symlink_to(tmp_path / "ops")
    (tmp_path / "ops" / "run.json").write_text("{}", encoding="utf-8")
    for path in ("run/..%2F..%2F..%2Fetc", "run/../../etc/passwd", "run/%2Fetc", "run/out", "review/out", "run/.."):
        status, body, _ = reader.send(path)
        assert status == 404, path
        assert "root:" not in body
    assert reader.send("compare?a=out&b=after")[0] == 404


def test_other_methods_and_wrong_forms(reader: Served) -> None:
    assert reader.send("kernels", {}, **{"Content-Type": "text/plain"})[0] == 415
    assert reader.send("kernels", {"code": "x" * 300_000})[0] == 413
    assert reader.send("", {})[0] == 404
    assert reader.send("kernels", {"code": "lambda x: x", "target": "cpu_avx2", "inputs": "x=\0"})[1].count("zero byte")
    assert "this is no Python" in reader.send("kernels", {"code": "(" * 5000, "target": "cpu_avx2"})[1]


def test_an_incomplete_run_is_one_sentence(reader: Served, project: Project) -> None:
    (project.before.folder / "run.json").write_text("{}", encoding="utf-8")
    assert "has no torch and no targets" in reader.send("")[1]
    for path in ("run/before", "review/before", "compare?a=before&b=after"):
        status, body, _ = reader.send(path)
        assert (status, "has no torch and no targets" in body) == (409, True), path


def test_the_address_of_both_names_of_the_loopback(reader: Served) -> None:
    host = f"localhost:{reader.server.server_port}"
    assert reader.send("", Host=host, Origin=f"http://{host}")[0] == 200
    assert reader.server.server_address[0] == "127.0.0.1"
    assert reader.send_raw(f"/{TOKEN}", None)[2]["Location"] == f"/{TOKEN}/"


def test_a_report_is_kept_until_the_run_changes(reader: Served, project: Project) -> None:
    first, again = (reader.send("run/before")[1] for _ in range(2))
    assert first == again
    project.fail_anew()
    assert reader.send("run/before")[1] != first
    assert '<a href="../">All runs</a>' in first


def test_the_runs_the_search_and_text_that_is_hostile(reader: Served, project: Project) -> None:
    link_last_run(project.root, project.after)
    page = reader.send("")[1]
    assert re.findall(r'href="run/(\w+)"', page) in (["after", "before"], ["before", "after"])
    assert "after</a> (last)" in page
    found = reader.send("search?q=numericserror+taken")[1]
    assert "flip/wrong cpu_avx2" in found
    assert "flip/changed" not in found
    assert HOSTILE.lower() not in found.lower()
    assert "<script>" not in reader.send("search?q=<script>")[1]
    assert "Nothing has all of these words" in reader.send("search?q=nosuchword")[1]


def test_a_review_is_read_only_without_the_option(reader: Served, project: Project) -> None:
    page = reader.send("review/after")[1]
    assert "1 text of 1 case differs by 1 cause" in page
    assert "<form" not in page
    status, body, _ = reader.send("review/after", {"cause": "new", "decision": "accept"})
    assert (status, "view --accept" in body) == (403, True)
    assert project.stored() == TEXT


def test_accept_stores_a_cause(writer: Served, project: Project) -> None:
    cause = _cause(writer.send("review/after")[1])
    status, _, headers = writer.send("review/after", {"cause": cause, "decision": "accept"})
    assert (status, headers["Location"]) == (303, f"/{TOKEN}/review/after")
    assert project.stored() == CHANGED
    page = writer.send("review/after")[1]
    assert "snapshots: 0 new, 1 changed, 0 unchanged" in page
    assert "nothing differs" in page
    status, body, _ = writer.send("review/after", {"cause": cause, "decision": "accept"})
    assert (status, "no such cause now" in body) == (409, True)


def test_an_item_with_two_causes_waits_for_the_second_one(writer: Served, project: Project) -> None:
    edit = ("return (buf0, )", "del arg0\n    return (buf0, )")
    texts = {"flip/a": CHANGED, "flip/b": TEXT.replace(*edit), "flip/both": CHANGED.replace(*edit)}
    project.store.merge({case: {("2.13", "cpu_avx2"): TEXT} for case in texts})
    place = {"store": str(project.store.root)}
    records = [record(case, "cpu_avx2", text=text, **place) for case, text in texts.items()]
    made_run(project.before.folder.parent / "two", records)
    one, other = _causes(writer.send("review/two")[1])
    for cause, said in ((one, "not accepted yet: flip/both-cpu_avx2 also has cause"), (other, "0 new, 2 changed")):
        writer.send("review/two", {"cause": cause, "decision": "accept"})
        page = writer.send("review/two")[1]
        assert said in page
    assert "nothing differs" in page


def test_reject_is_remembered_as_the_terminal_does(
    writer: Served, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    cause = _cause(writer.send("review/after")[1])
    writer.send("review/after", {"cause": cause, "decision": "reject"})
    assert "(rejected)" in writer.send("review/after")[1]
    assert project.stored() == TEXT
    assert main(["review", str(project.after.folder), "--list"]) == 0
    assert "rejected: " in capsys.readouterr().out


def test_a_read_only_folder_is_one_sentence(writer: Served, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(arguments[0]))

    cause = _cause(writer.send("review/after")[1])
    monkeypatch.setattr("conformance.cli.review_decisions.write_atomically", refuse)
    status, body, _ = writer.send("review/after", {"cause": cause, "decision": "reject"})
    assert (status, "review.json: Permission denied" in body) == (409, True)


def test_a_project_without_runs(tmp_path: Path) -> None:
    with served(tmp_path) as started:
        assert "There are no runs yet" in started.send("")[1]


def test_what_can_be_pasted(tmp_path: Path) -> None:
    file = tmp_path / "pasted.py"
    assert function_word("# a comment\nlambda x: (\n  x + 1)", file) == "lambda x: x + 1"
    assert not file.exists()
    assert function_word("import torch\ndef f(x):\n    return x\nclass Net:\n    pass\n", file) == f"{file}:Net()"
    for wrong, said in (("def f(:", "line 1"), ("1 + 1", "paste a lambda"), ("", "paste a lambda")):
        with pytest.raises(PastedError, match=said):
            function_word(wrong, file)


def test_wrong_words_of_the_form(reader: Served) -> None:
    for form, said in (
        ({"code": "lambda x: x", "target": "nosuch"}, "there is no target nosuch"),
        ({"code": "lambda x: x", "target": "cpu_avx2", "part": "nosuch"}, "there is no part nosuch"),
        ({"code": "lambda x: x"}, "choose a target"),
        ({"code": "def f(:", "target": "cpu_avx2"}, "this is no Python: line 1"),
    ):
        status, body, _ = reader.send("kernels", form)
        assert (status, said in body) == (200, True), form


@pytest.mark.long("it compiles a function for several targets, one in C++")
def test_a_pasted_function_is_compiled_for_each_target(reader: Served) -> None:
    form = {"code": "lambda x: x.flip(-1)", "inputs": "x=3x8:f32", "target": ["cpu_avx2", "cuda_sm90"], "part": "code"}
    body = reader.send("kernels", form)[1]
    assert "cpp_fused_flip_0" in body
    assert "triton_poi_fused_flip_0" in body
    wrong = reader.send("kernels", {**form, "code": "lambda x: nosuch(x)", "target": "cpu_avx2"})[1]
    assert "is not defined" in wrong


def test_a_port_that_is_taken(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["view", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert said == f"error: --port {port} of 127.0.0.1 cannot be used: it is taken; leave it out for any free one\n"
    assert main(["view", "--port", "70000"]) == 2
    assert "a port is a number from 1 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_starts_without_torch_and_a_signal_ends_it(project: Project, number: signal.Signals) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "conformance", "view"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/  \(Ctrl-C ends\)\n", line)
    assert out == "\nended\n"
    assert process.returncode == 0
    assert not [each for each in err.splitlines() if not each.startswith("import time:")]
    assert not re.search(r"\| +torch$", err, re.MULTILINE)
