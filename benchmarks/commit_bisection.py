#!/usr/bin/env python3
"""How often `bisect` names the right commit, in how many compiles, and how long that takes.

    python benchmarks/commit_bisection.py                  # all kinds; writes a repository below a temporary folder
    python benchmarks/commit_bisection.py --only pattern   # kinds whose name has this word
    python benchmarks/commit_bisection.py --check          # only says whether each cause changes the answer
    python benchmarks/commit_bisection.py --folder F       # keeps the repository, and each result in F/results.json:
                                                           # after an interruption, the same command goes on

It makes a repository from the Python files of the installed torch. Each kind is a branch of 64 commits: one is the
cause, others change random functions of Inductor, Dynamo and the decompositions, or only their comments, and some leave
a module that cannot be imported until the next commit mends it. The causes are edits of torch 2.13.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import json
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance import atomic_files
from conformance.bisection.observer import Observer
from conformance.cases.adhoc import AdhocOptions
from conformance.devices.environment import torch_build
from conformance.sources.laid_tree import lay
from conformance.sources.torch_source import installed_files, parse_source

COMMITS = 64
#: Commits that leave a module which cannot be imported.
BREAKING = 3
#: Where the other commits change functions: folders, and how many of ten commits go there.
PLACES = (("_inductor", 6), ("_dynamo", 2), ("_decomp", 1), ("_functorch", 1))


@dataclass(frozen=True)
class Kind:
    """A cause: in `file`, `old` becomes `new`. It changes the answer to `question` of `function` on `target`."""

    name: str
    file: str
    old: str
    new: str
    function: str
    inputs: tuple[str, ...]
    target: str = "cuda_sm90"
    question: tuple[str, ...] = ("--code",)


VECTOR = ("x=1000:f32",)
MATRIX = ("x=64x128:f32",)
KINDS = (
    Kind("lowering of mul", "_inductor/lowering.py", "return make_pointwise(fn)(a, b)\n\n\ndef get_constant_value",
         "return make_pointwise(fn)(b, a)\n\n\ndef get_constant_value", "lambda x, y: x.sin() * y.cos()",
         ("x=1000:f32", "y=1000:f32")),
    Kind("lowering of sum", "_inductor/lowering.py", 'fn = make_reduction("sum", override_return_dtype=dtype)',
         'x = mul(x, 2)\n    fn = make_reduction("sum", override_return_dtype=dtype)', "lambda x: x.sum(-1)", MATRIX),
    Kind("lowering of mean in half precision", "_inductor/lowering.py",
         "if output_dtype in (torch.float16, torch.bfloat16):\n        x = to_dtype(x, torch.float)",
         "if output_dtype in (torch.bfloat16,):\n        x = to_dtype(x, torch.float)", "lambda x: x.mean(-1)",
         ("x=64x128:f16",)),
    Kind("scheduler: nothing is fused", "_inductor/scheduler.py",
         "        if node1 is node2:\n            return False\n", "        return False\n",
         "lambda x: (x.sin().sum(-1), x.sin().cos())", MATRIX, "cuda_sm90", ("--fact", "kernels")),
    Kind("scheduler: in place", "_inductor/scheduler.py",
         "        if self.is_template():\n            return False\n        if any(out.get_aliases()",
         "        if True:\n            return False\n        if any(out.get_aliases()",
         "lambda x, y: torch.softmax(x @ y, -1)", ("x=64x64:f32", "y=64x64:f32")),
    Kind("codegen Triton: sigmoid", "_inductor/codegen/triton.py", 'return f"tl.sigmoid({x})"',
         'return f"(1 / (1 + tl.exp(-({x}))))"', "lambda x: x.sigmoid()", VECTOR, "xpu_pvc"),
    Kind("codegen Triton: rsqrt", "_inductor/codegen/triton.py", 'return f"libdevice.rsqrt({x})"',
         'return f"1 / libdevice.sqrt({x})"', "lambda x: x.rsqrt()", VECTOR),
    Kind("codegen cpp: neg", "_inductor/codegen/cpp.py", 'return f"{x}.neg()"',
         'return f"(decltype({x})(0) - {x})"', "lambda x: -x", VECTOR, "cpu_avx2"),
    Kind("codegen cpp: no tiling", "_inductor/codegen/cpp.py",
         "if any(dtype not in VECTORIZABLE_DTYPES for dtype in all_dtypes):",
         "if True or any(dtype not in VECTORIZABLE_DTYPES for dtype in all_dtypes):", "lambda x: x.exp()", VECTOR,
         "cpu_avx512", ("--fact", "vectorised")),
    Kind("pattern: addmm", "_inductor/fx_passes/post_grad.py", "def is_valid_addmm_fusion(match):\n",
         "def is_valid_addmm_fusion(match):\n    return False\n", "lambda x, y, z: x @ y + z",
         ("x=64x64:f32", "y=64x64:f32", "z=64x64:f32")),
    Kind("pattern: pointless convert", "_inductor/fx_passes/joint_graph.py",
         "    allowed = torch.float16, torch.bfloat16, torch.float32, torch.float64\n", "    allowed = ()\n",
         "lambda x: x.to(torch.float64).to(torch.float32).to(torch.float64).sin()", VECTOR),
    Kind("decomposition: hardsigmoid", "_decomp/decompositions.py",
         "return torch.clamp(torch.clamp(self + 3, min=0), max=6) / 6\n",
         "return torch.clamp(torch.clamp(self + 3, max=6), min=0) / 6\n",
         "lambda x: torch.nn.functional.hardsigmoid(x)", VECTOR, "cpu_avx2"),
    Kind("decomposition: silu", "_inductor/decomposition.py", "return x / (1 + x.neg().exp())\n",
         "return x * torch.sigmoid(x)\n", "lambda x: torch.nn.functional.silu(x)", VECTOR),
    Kind("default: split reductions", "_inductor/config.py", '("TORCHINDUCTOR_SPLIT_REDUCTIONS", "1")',
         '("TORCHINDUCTOR_SPLIT_REDUCTIONS", "0")', "lambda x: x.sum()", ("x=1000000:f32",), "cuda_sm90",
         ("--fact", "kernels")),
    Kind("default: size of fusions", "_inductor/config.py", "max_fusion_size = 64", "max_fusion_size = 1",
         "lambda x: (x.sin().sum(-1), x.cos())", MATRIX),
    Kind("default: buffers in place", "_inductor/config.py", "inplace_buffers = True", "inplace_buffers = False",
         "lambda x, y: torch.relu(x @ y)", ("x=64x64:f32", "y=64x64:f32"), "xpu_bmg"),
    Kind("numerics only: maximum of NaN", "_inductor/runtime/triton_helpers.py",
         "    mask = a > b\n    if is_floating(a):\n        mask |= a != a\n    return tl.where(mask, a, b)",
         "    mask = a > b\n    return tl.where(mask, a, b)", "lambda x, y: torch.maximum(x, y)",
         ("x=1000:f32", "y=1000:f32"), "cuda_sm90", ("--numerics",)),
    Kind("numerics only: flags of the C++ compiler", "_inductor/cpp_builder.py", '                "DNDEBUG",\n',
         '                "DNDEBUG",\n                "fsingle-precision-constant",\n',
         "lambda x: x * 0.1", ("x=1000:f64",), "native", ("--numerics",)),
    Kind("numerics: decomposition of hardswish", "_decomp/decompositions.py",
         "return self * torch.clamp(torch.clamp(self + 3, min=0), max=6) / 6\n",
         "return self * torch.clamp(torch.clamp(self + 3, min=0), max=6) / 5\n",
         "lambda x: torch.nn.functional.hardswish(x)", VECTOR, "cuda_sm90", ("--numerics",)),
    Kind("simplification of indices", "_inductor/sizevars.py",
         "        expr = join_dimensions(self.simplify(expr))\n        original_expr",
         "        return expr\n        original_expr",
         "lambda x: x.reshape(32, 8, 32).permute(1, 0, 2).reshape(-1) + 1", ("x=64x128:f32",)),
    Kind("choice of persistent reductions", "_inductor/choices.py",
         "        if not config.triton.persistent_reductions:\n            return False\n        threshold",
         "        return False\n        threshold", "lambda x: x.softmax(-1)", MATRIX, "cuda_sm90",
         ("--fact", "kernels")),
)  # fmt: skip


def git(folder: Path, *words: str, given: bytes | None = None) -> str:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, input=given, check=True, capture_output=True
    ).stdout.decode()


def make_repository(folder: Path) -> None:
    """A repository with the Python files of the installed torch, on the branch `base`."""
    torch = torch_build().folder
    for path in installed_files(torch):
        target = folder / "torch" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(torch / path, target)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "the release")
    git(folder, "branch", "-f", "base")


class Branch:
    """The commits of one branch, which git imports at once. `texts`: path below torch/ → the text of a changed file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.texts: dict[str, str] = {}
        self._stream: list[bytes] = []

    def text(self, path: str) -> str:
        return self.texts.get(path) or (self.folder / "torch" / path).read_text()

    def commit(self, subject: str, files: dict[str, str]) -> None:
        self.texts |= files
        number, message = len(self._stream), subject.encode()
        head = f"commit refs/heads/{self.name}\ncommitter bench <bench@example.org> {1_700_000_000 + number} +0000\n"
        parent = "from refs/heads/base^0\n" if not self._stream else ""
        changes = b"".join(
            b"M 100644 inline torch/%s\ndata %d\n%s\n" % (path.encode(), len(text.encode()), text.encode())
            for path, text in files.items()
        )
        self._stream.append(head.encode() + b"data %d\n%s\n" % (len(message), message) + parent.encode() + changes)

    def write(self) -> list[str]:
        """Returns the ids of the commits, the oldest first."""
        git(self.folder, "fast-import", "--quiet", "--force", given=b"".join(self._stream))
        return git(self.folder, "rev-list", "--reverse", f"base..{self.name}").split()


def make_branch(folder: Path, kind: Kind, number: int) -> str:
    """A branch of COMMITS commits with a cause; returns the id of the cause. The folder has the files of `base`."""
    drawn, branch = random.Random(number), Branch(folder, f"kind{number}")
    cause = drawn.randrange(COMMITS)
    breaking = set(drawn.sample([place for place in range(COMMITS - 1) if cause not in (place, place + 1)], BREAKING))
    mend = None
    for place in range(COMMITS):
        if place == cause:
            subject, files = kind.name, {kind.file: replaced(branch.text(kind.file), kind)}
        elif mend is not None:
            subject, files, mend = "mend the import", mend, None
        elif place in breaking:
            path = drawn.choice(["_inductor/ir.py", "_inductor/utils.py", "_dynamo/utils.py"])
            text = branch.text(path)
            subject, mend = "a name that no binary has", {path: text}
            files = {path: text + "\n\n_FAST_PATH = torch._C._fast_path_of_tomorrow()\n"}
        else:
            subject, files = other_change(branch, drawn)
        branch.commit(f"{subject} ({place})", files)
    return branch.write()[cause]


def replaced(text: str, kind: Kind) -> str:
    if kind.old not in text:
        raise SystemExit(f"{kind.file} has no {kind.old!r}: the causes are edits of torch 2.13")
    return text.replace(kind.old, kind.new, 1)


@functools.cache
def python_files(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.rglob("*.py")) if each.name != "config.py"]  # torch parses its comments


def other_change(branch: Branch, drawn: random.Random) -> tuple[str, dict[str, str]]:
    """A change of a random function that changes no answer: a statement without effect, a comment, a new function."""
    places = [place for place, weight in PLACES for _ in range(weight)]
    while True:
        file = drawn.choice(python_files(branch.folder / "torch" / drawn.choice(places)))
        path = str(file.relative_to(branch.folder / "torch"))
        text = branch.text(path)
        functions = [node for node in ast.walk(ast.parse(text)) if is_plain(node)]
        if functions:
            break
    node = drawn.choice(functions)
    lines = text.splitlines(keepends=True)
    statement = node.body[0].lineno - 1
    blanks = re.match(r"\s*", lines[statement])[0]
    what = drawn.randrange(10)
    if what < 6:
        lines.insert(statement, f"{blanks}_unused = {drawn.randrange(1000)}\n")
        try:
            ast.parse("".join(lines))
        except SyntaxError:  # such as after a form feed, which ast does not count as the end of a line
            return other_change(branch, drawn)
        return f"a statement in {node.name}", {path: "".join(lines)}
    if what < 9:
        lines.insert(statement, f"{blanks}# a remark {drawn.randrange(1000)}\n")
        return f"a comment in {node.name}", {path: "".join(lines)}
    name = f"_helper_{drawn.randrange(10**6)}"
    return f"a function in {path}", {path: f"{text}\n\ndef {name}():\n    return {drawn.randrange(1000)}\n"}


def is_plain(node: ast.AST) -> bool:
    """Whether a function can get a further statement at its beginning, and is Python alone."""
    return (
        isinstance(node, ast.FunctionDef)
        and node.body[0].lineno > node.lineno
        and not node.decorator_list
        and not getattr(node.body[0], "decorator_list", ())
        and not isinstance(node.body[0], (ast.Global, ast.Nonlocal))
        and not (isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant))
        and not any(isinstance(each, (ast.Global, ast.Nonlocal)) for each in ast.walk(node))
    )


@dataclass
class Result:
    """`relevant`: how many commits may be the cause. `seconds`: of wall time; `cpu`: of all processes together.

    `reused`: commits that an interrupted call has measured: the seconds of these are missing.
    """

    kind: str
    is_right: bool
    compiles: int
    skipped: int
    relevant: str
    seconds: float
    cpu: float
    reused: int
    text: str


def results_file(folder: Path) -> Path:
    return folder / ".git" / "results.json"  # where no checkout removes it


def kept_results(folder: Path) -> dict[str, Result]:
    """Name of a kind → its right result of an earlier call."""
    file = results_file(folder)
    kept = [Result(**each) for each in json.loads(file.read_text())] if file.is_file() else []
    return {each.kind: each for each in kept if each.is_right}


def keep(folder: Path, results: dict[str, Result]) -> None:
    atomic_files.write_atomically(
        results_file(folder), json.dumps([dataclasses.asdict(each) for each in results.values()], indent=1)
    )


def bisect(folder: Path, kind: Kind, cause: str, branch: str) -> Result:
    words = [sys.executable, "-m", "conformance", "bisect", kind.function, "--target", target_of(kind), "--source"]
    words += [str(folder), "--good", "base", "--bad", branch, *kind.question]
    words += [word for each in kind.inputs for word in ("--input", each)]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = ran.stdout + ran.stderr
    counted = re.search(
        r"(\d+) of \d+ commits change what the case executes; (\d+) compiles now, (\d+) commits from an earlier", text
    )
    skipped = len(re.findall(r"^  skipped", text, re.MULTILINE))
    reused = int(counted[3]) if counted else 0
    compiles = int(counted[2]) + reused - skipped if counted else 0
    is_right = f"changed with {cause}\n" in ran.stdout
    relevant = counted[1] if counted else "?"
    return Result(kind.name, is_right, compiles, skipped, relevant, seconds, cpu, reused, text)


def target_of(kind: Kind) -> str:
    from conformance.devices.machine import instruction_sets

    return f"cpu_{instruction_sets()[-1]}" if kind.target == "native" else kind.target


def check(folder: Path, kinds: list[tuple[int, Kind]]) -> Iterator[str]:
    """Says whether each cause changes the answer."""
    from conformance.bisection.observation import Question

    for _, kind in kinds:
        name = kind.question[0].removeprefix("--")
        question = Question(name, kind.question[1]) if name == "fact" else Question(name)
        options = AdhocOptions(kind.inputs)
        observer = Observer((kind.function,), target_of(kind), options, numerics=name == "numerics")
        answers, codes = [], []
        file = folder / "torch" / kind.file
        base = file.read_text()
        for text in (base, replaced(base, kind)):
            file.write_text(text)
            tree = lay(dataclasses.replace(parse_source(str(folder), "check")), torch_build())
            observed = observer.observe(tree.folder, functions=False).observations[kind.function]
            answers.append(observed.misfit or question.answer(observed))
            codes.append(observed.code)
            file.write_text(base)
        changed = "changes" if answers[0] != answers[1] else "DOES NOT CHANGE"
        short = [each if "\n" not in each else f"{len(each)} characters" for each in answers]
        yield f"{kind.name}: {changed}: {short[0]} → {short[1]}{', the same code' if codes[0] == codes[1] else ''}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kinds whose name has this word")
    parser.add_argument("--check", action="store_true", help="only say whether each cause changes the answer")
    parser.add_argument("--folder", type=Path, help="the repository, kept and used again")
    arguments = parser.parse_args()
    kinds = [(number, kind) for number, kind in enumerate(KINDS) if arguments.only in kind.name]
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="bisect-"))
    if not (folder / ".git").is_dir():
        folder.mkdir(exist_ok=True, parents=True)
        make_repository(folder)
    git(folder, "checkout", "-qf", "base")  # also what an interrupted --check left
    if arguments.check:
        for line in check(folder, kinds):
            print(line, flush=True)
        return 0
    results = kept_results(folder)
    print("| kind | right | compiles | skipped | of 64, may be the cause | s | CPU s |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for number, kind in kinds:
        if kind.name not in results:
            results[kind.name] = bisect(folder, kind, make_branch(folder, kind, number), f"kind{number}")
            keep(folder, results)
        result = results[kind.name]
        about = f"{result.compiles} | {result.skipped} | {result.relevant} | {result.seconds:.0f} | {result.cpu:.0f}"
        about += f" without {result.reused} commits" if result.reused else ""
        print(f"| {kind.name} | {'yes' if result.is_right else 'NO'} | {about} |", flush=True)
        if not result.is_right:
            print(result.text[-3000:], flush=True)
    measured = [results[kind.name] for _, kind in kinds]
    right, most = sum(each.is_right for each in measured), max(each.compiles for each in measured)
    seconds, cpu = (statistics.median(getattr(each, name) for each in measured) for name in ("seconds", "cpu"))
    print(f"{right} of {len(measured)} right, at most {most} compiles, median {seconds:.0f} s, {cpu:.0f} CPU s")
    return int(right < len(measured))


if __name__ == "__main__":
    sys.exit(main())
