"""Known bugs: their page, and whether their scripts still show them."""

import pytest

from conformance.cases.roots import OPS, STORAGE_ROOTS
from conformance.cli.main import main
from conformance.devices.machine import Machine
from conformance.expectations import known_bugs, known_failures

FOLDER = "known_failures"
ENTRY = """
[[failure]]
case = "sum/sum-f16"
check = "numerics"
target = "cpu_avx2"
torch = ">=2.11"
error = "off"
reason = "{reason}"
issue = "{issue}"
{more}
"""


@pytest.fixture
def folder(tmp_path):
    shows = "reproduction = '''\nassert 1 + 1 == 3, \"sums are off\"\n'''"
    gone = "reproduction = '''\nassert 1 + 1 == 2\n'''"
    for name, values in {
        "a": {"reason": "no script", "issue": "not reported", "more": ""},
        "b": {"reason": "sums are off", "issue": "https://github.com/pytorch/pytorch/issues/1", "more": shows},
        "c": {"reason": "it was fixed", "issue": "not reported", "more": gone},
    }.items():
        (tmp_path / f"{name}.toml").write_text(ENTRY.format(**values).replace("sum/sum-f16", f"sum/sum-{name}"))
    return tmp_path


def test_the_page(folder, capsys):
    assert main(["list", "--bugs", str(folder)]) == 0
    page = capsys.readouterr().out
    assert (
        "### Sums are off\n\n- upstream: <https://github.com/pytorch/pytorch/issues/1>\n- torch >=2.11; cpu_avx2"
        in page
    )
    assert '```python\nassert 1 + 1 == 3, "sums are off"\n```' in page
    assert page.index("### No script") > page.index("### It was fixed")
    assert "\n- no script: " in page
    assert "## Does not compile, or raises\n\n3 bugs. " in page


def test_a_bug_that_no_longer_shows_is_named(folder, capsys):
    assert main(["list", "--bugs", str(folder), "--check"]) == 1
    out = capsys.readouterr().out
    assert "shows  sums are off: AssertionError: sums are off" in out
    assert "does NOT show  it was fixed: it ends without an error" in out
    assert "no script" not in out


def test_a_script_may_end_with_the_error_that_the_known_failure_names(folder, capsys):
    text = (folder / "c.toml").read_text().replace("assert 1 + 1 == 2", "raise RuntimeError('the sum is off')")
    (folder / "c.toml").write_text(text)
    assert main(["list", "--bugs", str(folder), "--check"]) == 0
    assert "shows  it was fixed: RuntimeError: the sum is off" in capsys.readouterr().out
    (folder / "c.toml").write_text(text.replace("the sum is off", "it is something else"))
    assert main(["list", "--bugs", str(folder), "--check"]) == 1


def test_a_bug_of_a_missing_gpu_is_not_run(folder, capsys, monkeypatch):
    """A torch without CUDA raises an AssertionError for `device="cuda"`, as if the script showed the bug."""
    monkeypatch.setattr(Machine, "detect", Machine)
    for file in folder.glob("*.toml"):
        file.write_text(file.read_text().replace("cpu_avx2", "xpu_pvc"))
    assert main(["list", "--bugs", str(folder), "--check"]) == 0
    assert "not run  sums are off: it needs a real GPU (xpu)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("reproduction = 1", "write a script as text"),
        ("reproduction = 'assert ('", "reproduction is not valid Python: line 1"),
    ],
)
def test_a_malformed_reproduction(tmp_path, capsys, more, text):
    (tmp_path / "a.toml").write_text(ENTRY.format(reason="why", issue="not reported", more=more))
    assert main(["list", "--bugs", str(tmp_path)]) == 2
    assert text in capsys.readouterr().err


def test_our_own_page_is_what_is_generated():
    found = known_bugs.bugs(each for root in STORAGE_ROOTS for each in known_failures.load(root / FOLDER).failures)
    page = (OPS.parents[1] / "docs" / "known-bugs.md").read_text(encoding="utf-8")
    assert page == "\n".join(known_bugs.markdown(found)) + "\n", "conformance list --bugs > docs/known-bugs.md"
