"""--quick: which target of a device, which case of a function, and the command that runs all."""

from __future__ import annotations

import pytest

from conformance import case, tensor
from conformance.cases.target_selection import select_targets
from conformance.devices.machine import Machine
from conformance.devices.targets import targets
from conformance.harness.quick import first_case, next_step, one_target_a_device
from conformance.storage.runs import Run


def names(machine: Machine, *selected: str) -> list[str]:
    rows = select_targets(targets().values(), None, ",".join(selected) or None)
    return [target.name for target in one_target_a_device(rows, machine)]


def with_gpu(name: str) -> Machine:
    row = targets()[name]
    gpu = {"capability": list(row.capability), "properties": dict(row.properties)}
    return Machine(("avx2", "avx512"), {row.device: gpu})


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (Machine(("avx2", "avx512")), ["cpu_avx512", "cuda_sm90", "xpu_bmg"]),
        (Machine(("avx2",)), ["cpu_avx2", "cuda_sm90", "xpu_bmg"]),
        (Machine(("neon",)), ["cpu_neon", "cuda_sm90", "xpu_bmg"]),
        (Machine(), ["cpu_avx512", "cuda_sm90", "xpu_bmg"]),
        (with_gpu("cuda_sm80"), ["cpu_avx512", "cuda_sm80", "xpu_bmg"]),
        (with_gpu("xpu_pvc"), ["cpu_avx512", "cuda_sm90", "xpu_pvc"]),
    ],
)
def test_one_target_of_each_device(machine, expected):
    assert names(machine) == expected


def test_only_selected_targets():
    machine = Machine(("avx2", "avx512"))
    assert names(machine, "cpu_avx2", "cpu_neon", "cuda_sm100") == ["cpu_avx2", "cuda_sm100"]
    both = ("cuda_sm90", "rocm_gfx942", "rocm_gfx950")
    assert names(machine, *both) == ["cuda_sm90", "rocm_gfx950"]
    assert names(with_gpu("rocm_gfx942"), *both) == ["cuda_sm90", "rocm_gfx942"]


@case(x=tensor(20, dtype=["f32", "f16"]), dim=[0, 1], only={"gpu f32": "a", "f16 dim1": "b"})
def test_declared(x, dim):
    return x


test_declared.__test__ = False  # an example: pytest must not collect it


def test_the_first_case_that_is_for_the_target():
    def labels(name: str) -> tuple[str, ...]:
        return first_case(test_declared.cases, targets()[name]).labels

    assert (labels("cuda_sm90"), labels("cpu_avx2")) == (("f32", "dim0"), ("f16", "dim1"))
    assert first_case(test_declared.cases[:1], targets()["cpu_avx2"]).labels == ("f32", "dim0")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["--quick"], "pytest -n auto"),
        (["-n", "2", "--quick"], "pytest -n 2"),
        (["-n4", "--quick", "--device", "cpu", "a b.py"], "pytest -n4 --device cpu 'a b.py'"),
    ],
)
def test_how_to_go_on(tmp_path, arguments, command):
    run = Run(tmp_path)
    run.write_selected({"a": "x", "b": "y", "c": ""})
    assert next_step(run, arguments, tmp_path, in_part=False) == [
        f"--quick compared one case of each function, 2 items; all items: {command}"
    ]
    run.write_items_without_quick(10416)
    assert next_step(run, arguments, tmp_path, in_part=False)[0].endswith(f"; all 10,416 items: {command}")
    assert "; all items: " in next_step(run, [*arguments, "a.py::test_x"], tmp_path, in_part=False)[0]
    assert next_step(run, arguments, tmp_path, in_part=True)[0].endswith(f"; all items: {command}")


def test_in_tox(tmp_path, monkeypatch):
    """The environment of tox is not active in the user's shell, so its pytest is not there."""
    monkeypatch.setenv("TOX_ENV_NAME", "suite-torch2.15")
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/tox").touch()

    def command(*arguments: str) -> str:
        return next_step(Run(tmp_path), arguments, tmp_path, in_part=False)[0].partition("all items: ")[2]

    assert command("-n", "auto", "--quick", "-k", "flip") == "ci/tox -e suite-torch2.15 -- -k flip"
    assert command("-n", "auto", "--quick") == "ci/tox -e suite-torch2.15"
