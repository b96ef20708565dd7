"""The overlay of a run: paths are found from the folder of the command, and wrong ones are refused."""

from __future__ import annotations

import pytest

from conformance.settings import Overlay, Settings, SettingsError, parse_overlay, refuse_beside_written_failures


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
