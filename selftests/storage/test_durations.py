"""The file of durations: merged by each run, and lost without harm."""

from __future__ import annotations

from conformance.storage import durations


def test_merging(tmp_path):
    folder = tmp_path / ".conformance"
    for name in ("a.py", "b.py"):
        (tmp_path / name).touch()
    durations.merge(folder, tmp_path, {"a.py::test_x[1-cpu_avx2]": 1.0, "b.py::test_y": 2.00049})
    durations.merge(folder, tmp_path, {"a.py::test_x[1-cpu_avx2]": 3.0, "a.py::test_z[a::b]": 4.0})
    known = {"a.py::test_x[1-cpu_avx2]": 3.0, "a.py::test_z[a::b]": 4.0, "b.py::test_y": 2.0}
    assert durations.read(folder) == known
    durations.copy(folder, tmp_path / "run")
    (tmp_path / "a.py").unlink()
    durations.merge(folder, tmp_path, {})
    assert durations.read(folder) == {"b.py::test_y": 2.0}
    assert durations.read(tmp_path / "run") == known


def test_a_file_that_cannot_be_read_or_written(tmp_path):
    assert durations.read(tmp_path) == {}
    for text in ("", "[]", '{"a.py": 1}', '{"a.py": {"test_x": "fast"}}'):
        (tmp_path / durations.FILE).write_text(text)
        assert durations.read(tmp_path) == {}
    durations.copy(tmp_path / "nothing", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "file").touch()
    durations.merge(tmp_path / "file", tmp_path, {"file::test_x": 1.0})
