"""The table of torch releases, and the refusal of a torch that is not in it."""

from __future__ import annotations

import pytest
from suites import REPOSITORY, SCALE, Suite

from conformance.devices import environment
from conformance.devices.torch_releases import RELEASES, VERSIONS, supported_version, unsupported_message


def test_versions_belong_to_their_release_and_have_a_triton():
    assert list(VERSIONS) == sorted(VERSIONS, key=lambda version: [int(part) for part in version.split(".")])
    for release in RELEASES:
        assert all(version.startswith(f"{release.name}.") for version in release.versions), release
        assert release.triton == VERSIONS[release.newest]
    assert supported_version(environment.torch_build().version)


@pytest.mark.parametrize(
    "version", ["2.13.0", "2.13.0+cpu", "2.14.1+cu130", "2.15.0a0+git1234567", "2.12.0.dev20260301"]
)
def test_a_build_of_a_supported_version(version):
    assert unsupported_message(version) == ""


@pytest.mark.parametrize(
    ("version", "advised"),
    [("2.8.0+cpu", "2.13.0"), ("2.12.2", "2.12.1"), ("2.1.0", "2.13.0"), ("2.16.0.dev20261120+cpu", "2.13.0")],
)
def test_another_version_is_refused_with_what_to_install(version, advised):
    message = unsupported_message(version)
    assert message.startswith(
        f"torch {version} is not supported: pip install torch=={advised} (supported as well: 2.11.0"
    )
    assert advised not in message.partition("(")[2]


@pytest.mark.parametrize("words", [[], ["-n", "1"]])
def test_a_run_refuses_another_torch_before_it_builds_anything(tmp_path, words):
    suite = Suite(tmp_path)
    suite.write("ops/test_scale.py", SCALE)
    suite.write("site/torch/__init__.py", "raise RuntimeError('torch was imported')\n")
    suite.write("site/torch/version.py", "__version__ = '2.16.0'\ncuda = hip = xpu = None\n")
    path = f"{suite.root / 'site'}:{REPOSITORY}"
    ran = suite.run(*words, env={"PYTHONPATH": path, "CONFORMANCE_CACHE": str(tmp_path / "cache")}).ends(4)
    assert ran.text.count("torch 2.16.0 is not supported: pip install torch==2.13.0 (supported as well: 2.11.0, ") == 1
    ran.has_not("Traceback", "INTERNALERROR")
    assert not list((tmp_path / "cache").rglob("*.so"))
