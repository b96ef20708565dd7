"""What says that no graph reached Inductor."""

from conformance.capture.model import Capture, Module
from conformance.facts.dynamo import nothing_compiled


def capture(**found):
    return Capture("a/case", "cpu_avx2", "native", "2.13", "", **found)


def test_a_graph_is_something():
    assert nothing_compiled(capture(modules=[Module("inference", "")])) == ""
    assert nothing_compiled(capture(counters={"stats": {"unique_graphs": 1}})) == ""  # a pass removed all of it


def test_the_reasons_of_graph_breaks_and_of_skipped_functions_are_named():
    assert nothing_compiled(capture()).endswith("(Dynamo found no operator)")
    broken = {"graph_break": {"Unsupported call\n  Hint": 1}, "conformance_graph_break": {"Unsupported call\tf(x)": 1}}
    assert nothing_compiled(capture(counters=broken)).endswith("(Unsupported call at `f(x)`)")
    another = "*** While handling this graph break, another graph break occurred: ***"
    skipped = {"unimplemented": {"Unsupported\n a": 1, f"Unsupported\n a\n\n{another}\n\nbreak in loop\n b": 1}}
    assert nothing_compiled(capture(counters=skipped)).endswith("(Unsupported; break in loop)")
