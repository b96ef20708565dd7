"""Workers are spread over the GPUs. The machine is simulated: its GPUs are counted, and never used."""

from __future__ import annotations

import json

import pytest
from accidents import CONFTEST, last_run, options, with_items
from suites import Suite

#: A machine with two GPUs. Each item writes the GPU that its worker sees.
TWO_GPUS = """
import json
from conformance.devices import machine
from conformance.devices.targets import targets

if "torch" in __import__("sys").modules:
    raise RuntimeError("torch was imported before the variable was set")
row = targets()["cuda_sm90"]
gpu = {"capability": list(row.capability), "properties": dict(row.properties) | {"name": "H200"}}
machine._gpus = lambda: {"cuda": machine.first_with_ordinals("cuda", [gpu, gpu])}
machine._detected.cache_clear()

def recorded(self):
    with (self.session.run.folder / "gpus.jsonl").open("a") as lines:
        worker, seen = os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ["CUDA_VISIBLE_DEVICES"]
        lines.write(json.dumps([worker, seen, self.case.labels[0]]) + "\\n")
    planted(self)

_ItemRun._capture_and_check = recorded
"""


def run(root, *more: str, accidents=(), visible: str) -> list[list[str]]:
    """For each item that ran: the worker, what the variable said, and the item."""
    suite = with_items(Suite(root, CONFTEST + TWO_GPUS), *[f"slow{number}" for number in range(12)], *accidents)
    ran = suite.run(*options(*more), env={"CUDA_VISIBLE_DEVICES": visible})
    ran.ends(1 if accidents else 0)
    lines = (last_run(suite).folder / "gpus.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_each_worker_sees_one_gpu(tmp_path):
    names = ("GPU-aaa", "GPU-bbb")
    ran = run(tmp_path, "-n", "3", visible=",".join(names))
    assert {worker: seen for worker, seen, _ in ran} == {"gw0": names[0], "gw1": names[1], "gw2": names[0]}


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
def test_the_worker_after_a_crash_has_the_same_gpu(tmp_path):
    ran = run(tmp_path, "-n", "2", accidents=("kill", "break"), visible="4,5")
    seen = {worker: gpu for worker, gpu, _ in ran}
    assert (seen["gw0"], seen["gw1"]) == ("4", "5")
    ended = [worker for worker, _, item in ran if item in ("kill", "break")]
    replacements = sorted(set(seen) - {"gw0", "gw1"})
    assert len(replacements) <= len(ended) == 2
    assert [seen[worker] for worker in replacements] == [seen[worker] for worker in ended][: len(replacements)]


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
def test_one_process_sees_all_gpus(tmp_path):
    assert {seen for _, seen, _ in run(tmp_path, "-n", "0", visible="4,5")} == {"4,5"}


@pytest.mark.long("it runs pytest with workers, each of which imports torch")
def test_the_header(tmp_path):
    suite = with_items(Suite(tmp_path, CONFTEST + TWO_GPUS), "fine")
    env = {"CUDA_VISIBLE_DEVICES": "0,1"}
    line = "cuda native (H200, cuda_sm90), 2 workers on 2 GPUs"
    suite.run("--device", "cuda", "-n", "2", "-k", "nothing", env=env).has(line)
    suite.run("--device", "cuda", "-n", "0", "-k", "nothing", env=env).has_not("workers on")
