"""`doctor`: what it finds on this machine, and what it says is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_process import process

from conformance.cli import doctor_checks
from conformance.devices import cpp_compiler, environment
from conformance.devices.machine import Machine
from conformance.devices.torch_releases import VERSIONS, supported_version

ROOT = Path(__file__).parents[2]


def test_doctor(call, monkeypatch):
    status, out, err = call("doctor")
    assert (status, err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in out.partition("\n\n")[0].splitlines())
    devices = ["cpu", "cuda", "xpu", "rocm"]
    assert list(rows) == ["Python", "compiler", "Python.h", "torch", "Triton", *devices, "qemu", "cache"]
    assert "cpu_neon" in rows["qemu"] or "apt-get install g++-aarch64-linux-gnu" in rows["qemu"]
    assert environment.torch_build().version in rows["torch"]
    assert out.endswith("\nThe suite can run here.\n")


def test_doctor_without_a_compiler(call, monkeypatch):
    for module in (cpp_compiler, doctor_checks):
        monkeypatch.setattr(module, "find_compiler", lambda: None)
    monkeypatch.setattr(doctor_checks, "install_command", lambda packages: f"apt-get install {packages['apt-get']}")
    status, out, _ = call("doctor")
    assert status == 0
    assert re.search(r"^cpu +.*; nothing is run: no C\+\+ compiler was found", out, re.MULTILINE)
    assert "\n      apt-get install g++\n" in out


def test_doctor_with_a_wrong_cxx(call, monkeypatch):
    monkeypatch.setenv("CXX", "foo")
    status, out, _ = call("doctor")
    assert status == 0
    assert "CXX names foo, which is not installed" in out
    assert "install g++" not in out.partition("\nMissing:\n")[2]  # before it, qemu's line names cross compilers
    assert out.endswith("\n      unset CXX\n\nThe suite can run here, but for what is missing.\n")


def test_doctor_builds_no_pretended_device(tmp_path):
    ran = process("doctor", env={"CONFORMANCE_CACHE": str(tmp_path)})
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"^deviceless +the first run builds the pretended GPUs", ran.stdout, re.MULTILINE)
    assert re.search(r"^cuda +deviceless; only generated: cuda_sm80", ran.stdout, re.MULTILINE)
    assert not list(tmp_path.rglob("*.so"))


def test_doctor_with_a_compiler_that_cannot_build_the_pretended_device(call, monkeypatch):
    monkeypatch.setenv("CXX", "false")
    status, out, _ = call("doctor")
    assert status == 0
    assert re.search(r"^deviceless +the pretended device cannot be built: ", out, re.MULTILINE)
    assert re.search("^cuda +deviceless; nothing is generated: the pretended device cannot be", out, re.MULTILINE)
    assert "A C++ compiler that builds C++20 with torch's headers." in out


def test_doctor_without_triton(call, monkeypatch):
    monkeypatch.setattr(environment, "triton_version", lambda: "")
    status, out, _ = call("doctor")
    assert status == 0
    triton = VERSIONS[supported_version(environment.torch_build().version)]
    assert f" -m pip install triton=={triton}\n" in out


@pytest.mark.parametrize(
    ("version", "message", "advised"),
    [
        (None, "not installed", "2.13.0"),
        ("2.8.0+cpu", r"torch 2.8.0\+cpu is not supported: pip install torch==2.13.0 ", "2.13.0"),
        ("2.12.7", r"torch 2.12.7 is not supported: pip install torch==2.12.1 ", "2.12.1"),
        ("2.16.0.dev20261120+cpu", r"torch 2.16.0.dev20261120\+cpu is not supported: pip ", "2.13.0"),
    ],
)
def test_doctor_without_a_torch_that_will_do(call, monkeypatch, version, message, advised):
    def build():
        if version is None:
            raise environment.PreparationError("torch is not installed")
        return environment.TorchBuild(version, (), Path())

    monkeypatch.setattr(environment, "torch_build", build)
    status, out, _ = call("doctor")
    assert status == 1
    assert re.search(f"^torch +{message}", out, re.MULTILINE)
    assert f" -m pip install torch=={advised}\n" in out
    assert out.endswith("\nThe suite cannot run here.\n")


def test_doctor_with_a_cache_that_cannot_be_written(call, monkeypatch):
    monkeypatch.setenv("CONFORMANCE_CACHE", "/proc/none")
    status, out, _ = call("doctor")
    assert status == 1
    assert re.search("^cache +CONFORMANCE_CACHE=/proc/none cannot be written", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("vendor", "built_for", "mode", "text", "missing"),
    [
        ("0x8086", (), 0o600, "a GPU of Intel that torch does not use: this torch is built without xpu", ""),
        ("0x1002", (), 0o600, "a GPU of AMD that torch does not use: this torch is built without ROCm", ""),
        ("0x8086", ("xpu",), 0o000, "a GPU of Intel that torch does not use", "Access to "),
        ("0x8086", ("xpu",), 0o600, "a GPU of Intel that torch does not use", "The GPU's driver: "),
    ],
)
def test_doctor_names_unused_gpus(tmp_path, monkeypatch, vendor, built_for, mode, text, missing):
    (tmp_path / "drm/renderD128/device").mkdir(parents=True)
    (tmp_path / "drm/renderD128/device/vendor").write_text(f"{vendor}\n")
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri/renderD128").touch(mode)
    monkeypatch.setattr(doctor_checks.os, "access", lambda path, _how: bool(Path(path).stat().st_mode & 0o600))
    monkeypatch.setattr(environment, "torch_build", lambda: environment.TorchBuild("2.13.0", built_for, tmp_path))
    [found] = doctor_checks.unused_render_nodes(Machine(), tmp_path / "drm", tmp_path / "dri")
    assert text in found.text
    assert found.missing.startswith(missing)
    assert found.command.startswith("sudo usermod -aG ") is (missing == "Access to ")
    used = Machine(gpus={"xpu": {}, "cuda": {}})
    assert not list(doctor_checks.unused_render_nodes(used, tmp_path / "drm", tmp_path / "dri"))


def test_a_variable_that_nothing_reads(call, monkeypatch):
    monkeypatch.setenv("CONFORMANCE_FACTOR", "100000")
    status, out, _ = call("doctor")
    assert status == 1
    sentence = "CONFORMANCE_FACTOR is set in the environment, and nothing reads it: unset it; our variables are "
    assert sentence in out
    status, _, err = call("show", "flip/hflip-224-u8-contiguous", "--target", "cpu_avx2")
    assert status == 2
    assert sentence in err


def test_our_variables_are_on_the_page_of_public_names():
    text = (ROOT / "docs/public-names.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in environment.OWN_VARIABLES)
