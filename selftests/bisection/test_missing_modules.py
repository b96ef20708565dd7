"""Modules that the imported torch lacks are imported from another one."""

from __future__ import annotations

import importlib
import sys

import pytest

from conformance.bisection.missing_modules import MissingModules, PythonFiles
from conformance.devices.environment import torch_build


@pytest.fixture
def packages(tmp_path):
    for path in ("made_only_there.py", "made_package/__init__.py", "made_package/inner.py", "made_optional.py"):
        file = tmp_path / "torch" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"NAME = {path!r}\n")
    return tmp_path


def test_only_what_code_of_several_versions_did_not_ask_for_is_found(packages, monkeypatch):
    missing = MissingModules(packages)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, missing])
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("torch.made_optional")
    missing.is_open = True
    names = ("torch.made_only_there", "torch.made_package", "torch.made_package.inner")
    try:
        assert importlib.import_module(names[0]).NAME == "made_only_there.py"
        assert importlib.import_module(names[2]).NAME == "made_package/inner.py"
        for name in ("torch.made_optional", "torch.made_nowhere", "made_only_there"):
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(name)
    finally:
        for name in names:
            sys.modules.pop(name, None)


def test_torchs_own_code_finds_also_what_others_asked_for(packages, monkeypatch):
    missing = MissingModules(packages)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, missing])
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("torch.made_optional")
    missing.is_open = True
    of_torch = compile("import torch.made_optional", str(torch_build().folder / "made.py"), "exec")
    try:
        exec(of_torch, {})  # noqa: S102 - as if torch's file had this line
        assert sys.modules["torch.made_optional"].NAME == "made_optional.py"
    finally:
        sys.modules.pop("torch.made_optional", None)


def test_texts_are_read_when_they_are_asked_for(packages):
    files = PythonFiles(packages)
    assert files["made_package/inner.py"] == "NAME = 'made_package/inner.py'\n"
    assert "made_package" not in files
    assert "made_nowhere.py" not in files
    assert min(files) == "made_only_there.py"
    assert len(files) == 4
