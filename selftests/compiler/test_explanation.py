"""An explanation links each line of source, graph, IR and kernel to the lines that it comes from."""

from __future__ import annotations

import pytest

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.compiler.case_request import CaseRequest, capture
from conformance.compiler.explanation import GRAPH, INSTRUCTIONS, KERNEL, SOURCE, Explanation, explained
from conformance.devices.environment import torch_build
from conformance.devices.targets import targets

prepare()  # before anything imports torch

MINE = """\
import torch

def helper(x):
    return x.exp()

def scaled(x):
    y = x * 3
    z = helper(y).sum(-1, keepdim=True)
    return (x / z).sort(-1, descending=True)[0]

def grown(x):
    y = x * 3
    return y.exp()

def soft(x):
    return (x * 3).softmax(-1)

try:
    import triton
    from triton import language as tl
except ImportError:
    pass
else:
    @triton.jit
    def doubling(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + place, 2 * tl.load(x_ptr + place, place < n), place < n)

def launched(x):
    out = torch.empty_like(x)
    doubling[(8,)](x, out, x.numel(), BLOCK=1024)
    return out.exp()

def twice(x):
    a = (x + 1).amax(-1, keepdim=True)
    return (x - a).sum(-1)
"""
TARGETS = ("cpu_avx2", "cuda_sm90")
#: The options with which each target multiplies with a template, and a line of it.
TEMPLATES = {
    "cpu_avx2": (("max_autotune=True", "max_autotune_gemm_backends=CPP", "freezing=True"), "micro_gemm<"),
    "cuda_sm90": (("max_autotune_gemm=True", "max_autotune_gemm_backends=TRITON"), "acc += tl.dot("),
}


def explanation_of(folder, function, target, config=(), **options) -> Explanation:
    (folder / "mine.py").write_text(MINE)
    spec = function if function.startswith("lambda") else f"{folder}/mine.py:{function}"
    case, _ = resolve_case(spec, targets(), AdhocOptions(("x=64x100:f32",), config=tuple(config)))
    with capture(CaseRequest(case, targets()[target], explore=True)) as result:
        return explained(result.capture, case, targets()[target], **options)


@pytest.fixture(scope="module", params=TARGETS)
def scaled(request, tmp_path_factory):
    return explanation_of(tmp_path_factory.mktemp("mine"), "scaled", request.param)


def reached(explanation: Explanation, text: str, start: int, end: int) -> list[str]:
    """The lines of pane `end` to which the links lead from the lines of pane `start` with the text."""
    lines = explanation.panes[start].lines
    numbers = {number for number, line in enumerate(lines) if text in line}
    assert numbers, (text, lines)
    for pane in range(start, end):
        numbers = {to for line, to in explanation.links[pane] if line in numbers}
    for pane in range(start, end, -1):
        numbers = {line for line, to in explanation.links[pane - 1] if to in numbers}
    return [explanation.panes[end].lines[number].strip() for number in sorted(numbers)]


def loads_of(explanation: Explanation) -> list[int]:
    """The line of the IR from which each line of the kernel comes that assigns tmp0."""
    loads = [number for number, line in enumerate(explanation.panes[KERNEL].lines) if "tmp0 = " in line]
    ir = {to: line for line, to in explanation.links[2] if to in loads}
    return [ir[load] for load in loads if load in ir]


def test_a_source_line_leads_to_its_lines_of_the_kernel(scaled):
    lines = "\n".join(reached(scaled, "y = x * 3", SOURCE, KERNEL))
    assert "3.0" in lines
    assert "exp(" not in lines


def test_a_line_of_the_kernel_leads_to_its_source_line(scaled):
    assert reached(scaled, "exp(", KERNEL, SOURCE) == ["return x.exp()", "z = helper(y).sum(-1, keepdim=True)"]
    assert reached(scaled, "exp(", KERNEL, GRAPH) != []
    [constant] = [line for line in scaled.panes[KERNEL].lines if "3.0" in line][:1]
    assert reached(scaled, constant, KERNEL, SOURCE) == ["y = x * 3"]


def test_the_functions_of_one_file_are_shown_without_others(scaled):
    assert scaled.panes[SOURCE].lines[0] == "# mine.py"
    assert "def twice(x):" not in scaled.panes[SOURCE].lines


def test_a_loop_nest_leads_to_its_own_line_where_both_have_the_same_variables(tmp_path):
    """Both nests begin with the same load into tmp0, in vectors and in the tail."""
    found = explanation_of(tmp_path, "twice", "cpu_avx2")
    loads = loads_of(found)
    graph = [{a for a, b in found.links[1] if b == line} for line in loads]
    sources = [{found.panes[SOURCE].lines[a].strip() for a, b in found.links[0] if b in lines} for lines in graph]
    assert sources == 2 * [{"a = (x + 1).amax(-1, keepdim=True)"}] + 2 * [{"return (x - a).sum(-1)"}]


def test_a_load_leads_to_its_own_nest_where_the_nest_before_has_the_same(tmp_path):
    loads = loads_of(explanation_of(tmp_path, "lambda x: x.flatten()[:3075].view(3, 1025).softmax(-1)", "cpu_avx2"))
    assert loads[0::2] == loads[1::2], "in vectors and in the tail"
    assert len(set(loads)) == 3


def test_reasons_stand_at_the_lines_that_they_are_about(tmp_path):
    found = explanation_of(tmp_path, "scaled", "cpu_avx2")
    pane = found.panes[KERNEL]
    notes = {pane.lines[line].strip(): texts for line, texts in pane.notes.items()}
    [sort] = [texts for line, texts in notes.items() if "aten.sort" in line]
    assert any(text.startswith("fallback: ") for text in sort)
    assert any("not fused" in text and "sort" in text for text in sort)
    assert any(text.startswith("vectorised, 8 lanes") for texts in notes.values() for text in texts)


def test_all_nodes_of_a_lambda_come_from_its_line(tmp_path):
    found = explanation_of(tmp_path, "lambda x: x.relu() + 1", "cpu_avx2")
    assert reached(found, "clamp_min", KERNEL, SOURCE) == ["lambda x: x.relu() + 1"]


def test_a_graph_of_library_calls_alone_is_linked(tmp_path):
    found = explanation_of(tmp_path, "lambda x: x.topk(3)", "cpu_avx2")
    assert reached(found, "aten.topk.default(", KERNEL, SOURCE) == ["lambda x: x.topk(3)"]


def test_a_line_of_a_triton_kernel_leads_to_its_instructions(tmp_path):
    found = explanation_of(tmp_path, "grown", "cuda_sm90", instructions=True)
    loads = reached(found, "tl.load(", KERNEL, INSTRUCTIONS)
    assert any("ld.global" in line for line in loads)
    assert not any("ex2.approx" in line for line in loads)
    exponentials = "\n".join(reached(found, "libdevice.exp(", KERNEL, INSTRUCTIONS))
    assert "ex2.approx" in exponentials
    assert "ld.global" not in exponentials
    assert "y = x * 3" in reached(found, "ld.global", INSTRUCTIONS, SOURCE)


def test_a_call_that_changes_its_argument_has_links_and_its_reason(tmp_path):
    found = explanation_of(tmp_path, "lambda x: x.clone().scatter_add_(0, (x > 9).long(), x)", "cpu_avx2")
    assert reached(found, "aten.scatter_reduce_", KERNEL, SOURCE) != []
    pane = found.panes[KERNEL]
    [notes] = [texts for line, texts in pane.notes.items() if "aten.scatter_reduce_" in pane.lines[line]]
    assert notes[0].startswith("aten.scatter_reduce_: at least ")
    assert "fallback: use_scatter_fallback: sum of float32 on cpu" in notes


def test_what_a_pass_made_leads_to_the_source_too(tmp_path):
    found = explanation_of(tmp_path, "soft", "cuda_sm90")  # a pattern takes the maximum of x times the sign of 3
    assert reached(found, "aten.mul.Tensor(arg0_1, 1)", GRAPH, SOURCE) == ["return (x * 3).softmax(-1)"]
    if torch_build().release >= (2, 13):  # before, the pattern does not look for infinity
        assert reached(found, "aten.abs.default(", GRAPH, SOURCE) == ["return (x * 3).softmax(-1)"]


def test_each_line_that_a_user_wrote_as_a_kernel_leads_to_its_launch(tmp_path):
    found = explanation_of(tmp_path, "launched", "cuda_sm90", instructions=True)
    stored = reached(found, "tl.store(out_ptr + place", KERNEL, INSTRUCTIONS)
    assert any("st.global" in line for line in stored)
    launch = "doubling[(8,)](x, out, x.numel(), BLOCK=1024)"
    assert launch in reached(found, "tl.store(out_ptr + place", KERNEL, SOURCE)
    pane = found.panes[KERNEL]
    notes = [texts[0] for line, texts in sorted(pane.notes.items())]
    assert [text.partition(":")[0] for text in notes] == ["kernel 1", "kernel 2"]
    assert "doubling (user-defined): at least " in notes[0]
    lines = [(line, pane.lines[line].strip()) for line in sorted(pane.notes)]
    assert lines[0][1].startswith("def doubling(")


@pytest.mark.parametrize(
    "target", [pytest.param("cpu_avx2", marks=pytest.mark.long("a C++ template compiles for seconds")), "cuda_sm90"]
)
def test_the_lines_of_a_template_lead_to_the_product(target, tmp_path):
    config, line = TEMPLATES[target]
    found = explanation_of(tmp_path, "lambda x: (x.unflatten(0, (2, 32)) @ x.view(2, 100, 32)).sin()", target, config)
    lines = "\n".join(reached(found, line, KERNEL, GRAPH))
    assert "aten.bmm.default" in lines
    assert ("aten.sin.default" in lines) == (target == "cpu_avx2"), "no line of what a C++ template fuses is known"


@pytest.mark.long("it compiles a C++ kernel with the assembler's text of each line")
def test_a_line_of_a_c_kernel_leads_to_its_instructions(tmp_path):
    found = explanation_of(tmp_path, "twice", "cpu_avx2", instructions=True)
    assert found.panes[INSTRUCTIONS].name == "assembly"
    largest = "\n".join(reached(found, "amax(", SOURCE, INSTRUCTIONS))
    assert "vmaxps" in largest
    assert "vsubps" not in largest
    assert reached(found, "vsubps", INSTRUCTIONS, SOURCE) == ["return (x - a).sum(-1)"]


def test_nothing_of_this_machine_is_in_the_panes(scaled, tmp_path):
    assert not [line for pane in scaled.panes for line in pane.lines if str(tmp_path.parent) in line]
    assert not [line for pane in scaled.panes for line in pane.lines if "kernel path" in line]
