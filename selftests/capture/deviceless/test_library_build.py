"""The library of the pretended devices: processes that need it at the same time build it once."""

import time
from concurrent.futures import ThreadPoolExecutor

from conformance.capture.deviceless import pretended_device
from conformance.devices.environment import torch_build


def test_it_is_built_once(monkeypatch, tmp_path):
    monkeypatch.setenv("CONFORMANCE_CACHE", str(tmp_path))
    built = []

    def compile_slowly(_compiler, _build, _sources, path):
        time.sleep(0.2)
        built.append(path)
        path.write_bytes(b"")

    monkeypatch.setattr(pretended_device, "_compile", compile_slowly)
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(pretended_device._build_library, [torch_build()] * 4))
    assert built == list(paths)
    assert paths.pop().is_relative_to(tmp_path)
