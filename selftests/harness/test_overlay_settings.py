"""The overlay of a run: paths are found from the folder of the command, and wrong ones are refused."""

from __future__ import annotations

import pytest

from conformance.harness.overlay import report
from conformance.settings import Overlay, Settings, SettingsError, parse_overlay, refuse_beside_written_failures
from conformance.storage.runs import ItemRecord


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.toml").write_text("")
    (tmp_path / "known").mkdir()
    (tmp_path / "store").mkdir()
    return tmp_path


def test_paths_become_absolute(folder):
    overlay = parse_overlay(["mine.toml", "mine.toml"], "store", ["known"], folder)
    assert overlay == Overlay((f"{folder}/mine.toml",), f"{folder}/store", (f"{folder}/known",))
    assert Overlay.from_json(overlay.to_json()) == overlay
    options = overlay.options()
    assert options[::2] == ["--targets", "--store", "--known-failures"]
    assert options[1::2] == [f"{folder}/{name}" for name in ("mine.toml", "store", "known")]
    assert overlay.with_known_failures(f"{folder}/known") == overlay
    assert overlay.with_known_failures("/new").known_failures == (f"{folder}/known", "/new")


@pytest.mark.parametrize(
    ("targets", "store", "known", "message"),
    [
        (["none.toml"], None, [], "--targets: there is no file {}/none.toml; name a table with rows as in"),
        (["known"], None, [], "--targets: there is no file {}/known"),
        (
            [],
            "none",
            [],
            "--store: there is no folder {}/none; name a folder that holds expected_code/, or create it: mkdir",
        ),
        ([], None, ["none"], "--known-failures: there is no folder {}/none; name a folder with *.toml files"),
    ],
)
def test_what_does_not_exist_is_refused(folder, targets, store, known, message):
    with pytest.raises(SettingsError) as caught:
        parse_overlay(targets, store, known, folder)
    assert message.format(folder) in str(caught.value)


def test_a_run_that_accepts_may_create_the_store(folder):
    assert parse_overlay([], "new", [], folder, creates=True).store == f"{folder}/new"
    with pytest.raises(SettingsError, match=r"there is no folder .*mine\.toml"):
        parse_overlay([], "mine.toml", [], folder, creates=True)


@pytest.mark.parametrize(("change", "word"), [({"seed": 1}, "--seed 1"), ({"audit": True}, "--audit")])
def test_written_failures_are_those_of_a_plain_run(change, word):
    with pytest.raises(SettingsError, match=f"{word} makes other failures: leave one of them out"):
        refuse_beside_written_failures(Settings(write_known_failures="new", **change))
    refuse_beside_written_failures(Settings(write_known_failures="new"))


def test_the_header_says_which_layers_are_empty(folder):
    overlay = parse_overlay(["mine.toml"], "store", ["known"], folder)
    [line] = report.header_lines(overlay)
    assert line == (
        f"laid over: --targets {folder}/mine.toml, --store {folder}/store (no expected_code/ in it), "
        f"--known-failures {folder}/known (no *.toml in it)"
    )
    (folder / "store/expected_code").mkdir()
    (folder / "known/mine.toml").write_text("")
    assert "(" not in report.header_lines(overlay)[0]
    assert report.header_lines(Overlay()) == []


def test_the_end_names_a_table_whose_targets_have_no_item(folder):
    overlay = parse_overlay(["mine.toml"], None, [], folder)
    lines = report.summary_lines([ItemRecord("op/a", "cpu_avx2", "native", "2.13.0", "/store")], overlay)
    assert lines == [f"targets: 1 items for targets of conformance, 0 items for targets in {folder}/mine.toml"]


def test_a_folder_in_two_spellings_is_one(folder):
    overlay = parse_overlay(["./mine.toml", "mine.toml"], None, ["known/", "store/../known"], folder)
    assert overlay == Overlay((f"{folder}/mine.toml",), "", (f"{folder}/known",))
