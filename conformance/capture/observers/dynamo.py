"""Records Dynamo's graph breaks with the user's line of code, the frames that it compiles, and the guards of each.

Decisions: where Dynamo breaks the graph (torch/_dynamo/output_graph.py: GraphCompileReason), which guards it gives a
compiled frame (torch/_dynamo/guards.py: CheckFunctionManager), and which guard failed where it compiles a frame again
(get_and_maybe_log_recompilation_reasons of the same file). Torch's own counters keep only the text of a break.
All are kept among torch's counters, which a capture clears and stores.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.patching.patch import Patch

#: The group of torch's counters for graph breaks: "first line of the reason\tline of code" → how often.
GRAPH_BREAKS = "conformance_graph_break"
#: The group of torch's counters for guards: kind → how many.
GUARDS = "dynamo_guards"
#: The group of torch's counters for compiled frames: function → how often. See `function_name`.
COMPILES = "conformance_compile"
#: The group of torch's counters for frames that were compiled before: "function\tguard that failed" → how often.
RECOMPILES = "conformance_recompile"
#: Groups of counters that a capture adds where the case requires how often its calls compile: call → frames that it
#: compiled, and "call\treason" → 1; see Compiles.reasons.
LATER_CALLS = "conformance_later_call"
LATER_REASONS = "conformance_later_reason"

#: Why a frame is compiled in a later call where no guard failed: it is the other way of a branch, for example.
NOT_REACHED = "no earlier call reached it"
#: What Dynamo's reason for a graph break begins with where a branch depends on data.
JUMP = "generic_jump"
#: The longest text of a guard.
_LONGEST = 200
_RESUMED = re.compile(r"(?:torch_dynamo_resume_in_|_at_\d+$)")
#: What Dynamo writes around the guard that failed: the number of the compiled code, and sentences of advice.
_NUMBER = re.compile(r"^!?\d+(?:[/_]\d+)*: ")
_ADVICE = re.compile(r" (?:Cached backend: |Please open an issue |If this is unexpected, ).*")
#: What differs between two processes or machines: the address of an object, and a path.
_ADDRESS = re.compile(r", \d{6,}(?=\))| at 0x[0-9a-f]+| \(id=0x[0-9a-f]+\)")
_PLACE = re.compile(r', file "[^"]*", line \d+')
_FOLDERS = re.compile(r"(?<![\w)\]])(?:/[\w.+@-]+)+/(?=[\w.+@-])")
#: Dynamo's note where the user's code is not why the guard is there.
_NOT_DUE = "user code shown is first use"


def patches() -> list[Patch]:
    return [
        Patch(
            "torch._dynamo.output_graph:GraphCompileReason.__post_init__",
            _post_init,
            "records the user's stack at a graph break; torch's counters keep only the text",
        ),
        Patch(
            "torch._dynamo.guards:CheckFunctionManager.__init__",
            _init,
            "counts the compiled frames, and the guards of each; afterwards they are closures",
        ),
        Patch(  # Dynamo's metrics have the reason too, but only of a frame, without its name
            "torch._dynamo.convert_frame:get_and_maybe_log_recompilation_reasons",
            _recompilation_reasons,
            "records the guard that failed where a frame is compiled again; torch only logs it",
        ),
    ]


def first_line(reason: str) -> str:
    """The first line of a reason for a graph break. The other lines hold stacks and paths."""
    return reason.strip().split("\n")[0]


def _post_init(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def post_init(self: Any) -> None:
        from torch._dynamo.utils import counters

        original(self)
        if self.graph_break and self.user_stack:
            code = (self.user_stack[-1].line or "").strip()
            counters[GRAPH_BREAKS][f"{first_line(str(self.reason))}\t{code}"] += 1

    return post_init


def _init(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, f_code: Any, output_graph: Any = None, *args: Any, **kwargs: Any) -> None:
        from torch._dynamo.utils import counters

        if output_graph is not None:
            counters[COMPILES][function_name(f_code.co_name)] += 1
            for guard in output_graph.guards:
                counters[GUARDS][guard.create_fn_name()] += 1
        original(self, f_code, output_graph, *args, **kwargs)

    return init


def _recompilation_reasons(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def reasons_of(cache_entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        from torch._dynamo.utils import counters

        reasons = original(cache_entries, frame, *args, **kwargs)
        if reasons:  # of each compiled code, the one that was used last first
            counters[RECOMPILES][f"{function_name(frame.f_code.co_name)}\t{guard_text(reasons[0])}"] += 1
        return reasons

    return reasons_of


def function_name(name: str) -> str:
    """The function of a compiled frame: `fn`, or `fn after a graph break` for a function that Dynamo has made."""
    return f"{_RESUMED.sub('', name)} after a graph break" if name.startswith("torch_dynamo_resume_in_") else name


def guard_text(reason: str) -> str:
    """Dynamo's text of a guard that failed, in one line, with the user's code and without addresses and paths."""
    guard, _, comment = _ADVICE.sub("", _NUMBER.sub("", first_line(reason))).partition("  #")
    due = [each.partition("  # ")[0].strip() for each in comment.split(") and ") if _NOT_DUE not in each]
    text = guard.rstrip() + (f" at `{due[0]}`" if due and due[0] else "")
    text = _FOLDERS.sub("", _PLACE.sub("", _ADDRESS.sub("", text)))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@dataclass(frozen=True)
class Compiles:
    """What Dynamo compiled. `frames`: how many it began to compile. `functions`, `again`: see COMPILES, RECOMPILES.

    Outside of the context of a capture, nothing records functions and guards.
    """

    frames: int
    functions: Mapping[str, int] = field(default_factory=dict)
    again: Mapping[str, int] = field(default_factory=dict)

    def since(self, before: Compiles) -> Compiles:
        """What was compiled after `before`."""
        return Compiles(
            self.frames - before.frames,
            Counter(self.functions) - Counter(before.functions),
            Counter(self.again) - Counter(before.again),
        )

    def reasons(self) -> list[str]:
        """Why each frame was compiled, with its function where there are several: the guard that failed."""
        found = [(name, guard) for name, _, guard in (key.partition("\t") for key in self.again)]
        again = {name for name, _ in found}
        found += [(name, NOT_REACHED) for name in self.functions if name not in again]
        named = len(dict(found)) > 1
        return [f"{name}: {guard}" if named else guard for name, guard in found]


def compiled_frames() -> int:
    """The number of frames that Dynamo compiled in this process since its counters were cleared.

    Dynamo compiles a frame again if no compiled code fits the call, so a larger number after a call shows it. Its
    counters are private; the public torch.compiler can forbid a recompilation, but not count it.
    """
    import torch._dynamo.utils

    return torch._dynamo.utils.counters["frames"]["total"]


def branches_on_data() -> list[str]:
    """The lines of code that branch on data, which Dynamo met since its counters were cleared."""
    from torch._dynamo.utils import counters

    return [entry.partition("\t")[2] for entry in counters.get(GRAPH_BREAKS, {}) if entry.startswith(JUMP)]


def compiles() -> Compiles:
    """What Dynamo compiled in this process since its counters were cleared; see compiled_frames."""
    from torch._dynamo.utils import counters

    return Compiles(compiled_frames(), dict(counters.get(COMPILES, {})), dict(counters.get(RECOMPILES, {})))
