"""Lists what differs between two texts of a case, in words that are the same for the same change in every other case.

A symptom of a fact says which phrase the fact gained or lost (`persistent reduction`, `tail masked`). A symptom of code
says which kind of line or which place an edit changes. It names no arguments, shapes or counts.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from conformance.normalize.text import parse_facts, split_facts
from conformance.review.edits.edit import Edit, code_edits
from conformance.review.edits.parts import Part, describe_part, match_parts, split_parts
from conformance.review.fact_phrases import fact_phrases, kernel_operators
from conformance.review.kernel_metadata import split_metadata

#: Fact → when Inductor decides it. A later decision never causes an earlier one.
STAGES = {"patterns": 0, "graph_breaks": 0, "fallbacks": 1, "extern": 1, "unfused": 2, "kernels": 2, "vectorised": 3}
#: The stage of all other facts: buffers and bytes follow from the kernels.
LAST = 4
#: The stage of an edit of code.
CODE = 5
#: The stage of a fact of which only numbers, names or the order changed. It causes nothing.
NAMES = 6

SymptomKey = tuple[str, ...]
#: The call passes, allocates, reuses or frees buffers in another way. This follows from other changes of the text.
BUFFERS: SymptomKey = ("code", "buffers")
_BUFFERS_TITLE = "buffers are passed, allocated or reused in another way"

#: Edits that follow from kernels that became other kernels.
_NAMES_OF_KERNELS = ("kernel name", "operators")
_FOLLOWING = ("kernel name", "moved", "operators")


#: Facts about kernels. If none of them changed, an edit of a kernel follows from no fact.
_ABOUT_KERNELS = ("kernels", "unfused", "vectorised")


@dataclass(frozen=True)
class Symptom:
    """One difference of a text.

    `key`: equal for the same symptom in any text. `title`: without names and numbers; `exact_title`: with them.
    `stage`: see STAGES. `part`: the kernel, call or graph that an edit changes. `site`, `hunk`: as in edits.edit.Edit;
    the hunk of a fact is its lines before and after.
    """

    key: SymptomKey
    title: str
    stage: int
    part: str = ""
    site: int = 0
    hunk: tuple[str, ...] = field(default=(), compare=False)
    exact_title: str = field(default="", compare=False)


@dataclass(frozen=True)
class Symptoms:
    """All symptoms of a text.

    `replaced`: the labels of kernels that are other kernels now; none if no fact about kernels changed. `renamed`: the
    kernels contain other operators, so that names and comments of kernels follow.
    """

    facts: tuple[Symptom, ...]
    code: tuple[Symptom, ...]
    replaced: frozenset[str]
    renamed: bool = False

    def is_of_names(self, symptom: Symptom) -> bool:
        """Whether an edit only follows from kernels that contain other operators."""
        return self.renamed and symptom.key[1] in _NAMES_OF_KERNELS

    def is_absorbed(self, symptom: Symptom) -> bool:
        """Whether an edit belongs to a kernel that is another kernel now, or only follows from such a kernel."""
        return symptom.part in self.replaced or symptom.site == -1 or symptom.key[1] in _FOLLOWING


@functools.lru_cache(maxsize=16384)
def text_symptoms(stored: str, new: str) -> Symptoms:
    """Returns the symptoms that lead from the text `stored` to the text `new`."""
    before, after = parse_facts(stored), parse_facts(new)
    facts = [
        symptom
        for name in dict.fromkeys([*after, *before])
        if before.get(name) != after.get(name)
        for symptom in _fact_symptoms(name, before.get(name, ""), after.get(name, ""))
    ]
    calls = {part.label for text in (stored, new) for part in split_parts(split_facts(text)[1]) if part.kind == "call"}
    edits = code_edits(split_metadata(stored), split_metadata(new))
    code = [each for edit in edits for each in _code_symptoms(edit, in_call=edit.part in calls)]
    vectorised = [fact_phrases("vectorised", each.get("vectorised", "")) for each in (before, after)]
    renamed = any(each.key[0] == "kernels" for each in facts)
    replaced: frozenset[str] = frozenset()
    if any(each.key[0] in _ABOUT_KERNELS for each in facts):
        replaced = _replaced_kernels(stored, new, loops_changed=vectorised[0] != vectorised[1])
    return Symptoms(tuple(facts), tuple(code), replaced, renamed)


# Facts ----------------------------------------------------------------------------------------------------------------


def _fact_symptoms(name: str, before: str, after: str) -> Iterator[Symptom]:
    hunk = (*(f"-{line}" for line in before.splitlines()), *(f"+{line}" for line in after.splitlines()))
    stage = STAGES.get(name, LAST)

    def symptom(*key: str, title: str) -> Symptom:
        return Symptom((name, *key), f"{name}  {title}", stage, hunk=hunk)

    if name in ("bytes", "buffers"):
        yield symptom(title="changed")
        return
    old, new = fact_phrases(name, before), fact_phrases(name, after)
    general = _general_symptom(name, before, after, old, new)
    if general:
        yield symptom(*general[0], title=general[1])
    gained = [phrase for phrase in new if phrase not in old]
    lost = [phrase for phrase in old if phrase not in new]
    for phrase in lost:
        yield symptom("lost", phrase, title=f"no longer: {phrase}")
    for phrase in gained:
        yield symptom("gained", phrase, title=f"now: {phrase}")
    if not general and not gained and not lost:
        if old != new:
            yield symptom("counts", title="counts changed")
        else:
            what = _small_difference(name, before, after)
            yield Symptom((name, what), f"{name}  {what} changed", NAMES, hunk=hunk)


def _small_difference(name: str, before: str, after: str) -> str:
    """What differs between two values of a fact that have the same phrases."""
    if name == "kernels":
        kernels = [
            sorted((sorted(kernel_operators(line)), line.rpartition(" (")[2]) for line in text.splitlines())
            for text in (before, after)
        ]
        if kernels[0] == kernels[1]:
            return "order"
        if [operators for operators, _ in kernels[0]] != [operators for operators, _ in kernels[1]]:
            return "operators of each kernel"
    return "sizes"


def _general_symptom(
    name: str, before: str, after: str, old: Counter[str], new: Counter[str]
) -> tuple[SymptomKey, str] | None:
    """The key and the words of what the whole fact says: more kernels, fewer patterns, vectorised yes → no."""
    if name == "kernels":
        counts = [int(number[0]) if (number := re.match(r"\d+", text)) else 0 for text in (before, after)]
        if counts[0] == counts[1]:
            return None
        return (("more",), "more kernels") if counts[0] < counts[1] else (("fewer",), "fewer kernels")
    if name == "patterns" and old - new and not new - old:
        return ("fewer",), "fewer patterns match"
    if name == "vectorised":
        heads = [re.split(r"[:\n ]", text, maxsplit=1)[0] for text in (before, after)]
        if heads[0] != heads[1]:
            return ("head", *heads), f"{heads[0]} → {heads[1]}"
    return None


# Code -----------------------------------------------------------------------------------------------------------------


def _code_symptoms(edit: Edit, *, in_call: bool) -> Iterator[Symptom]:
    def symptom(key: SymptomKey, title: str) -> Symptom:
        exact = edit.title if title == edit.abstract else title
        return Symptom(("code", *key), title, CODE, edit.part, edit.site, edit.hunk, exact)

    if in_call and _is_about_buffers(edit):
        yield symptom(BUFFERS[1:], _BUFFERS_TITLE)
    elif edit.key[0] == "lines":
        for verb, lines in zip(("removed", "added"), _kinds_of_lines(edit), strict=True):
            for kind in dict.fromkeys(lines):
                line = "buf = buf" if in_call and kind == "… = …" else kind
                if in_call and _BUFFER_LINE.fullmatch(line):
                    yield symptom(BUFFERS[1:], _BUFFERS_TITLE)
                else:
                    yield symptom((verb, line), f"{verb}: `{line}`")
    elif edit.key[0] in ("number", "moved", "kernel name"):
        yield symptom(edit.key[:2], edit.abstract)
    elif edit.key[0] == "operand":
        yield symptom(("operand",), "operand changed")
    else:
        yield symptom(edit.key, edit.abstract)


def _kinds_of_lines(edit: Edit) -> tuple[list[str], list[str]]:
    """The kinds of the lines that an edit removes and adds."""
    sides: list[list[str]] = []
    for line in edit.key[1:]:
        if line == "|":
            sides.append([])
        else:
            sides[-1].append(_kind_of_line(line))
    return sides[0], sides[1]


def _kind_of_line(line: str) -> str:
    """What a line does, without its arguments: `assert_size_stride(…)`, `… = tl.load(…)`, `del …`."""
    words = line.split()
    if not words:
        return ""
    if words[0] == "del":
        return "del …"
    if words[0] == "#" and len(words) > 3 and words[2] == ".":  # an entry of a kernel's metadata
        entry, rest = f"{words[1]}.{words[3]}", " ".join(words[4:])
        return entry if not rest or rest.startswith("=") else f"{entry} {rest.replace(' ', '')}"
    assigned, equals, value = line.partition(" = ")
    if not equals or "(" in assigned:  # the equals sign of a keyword argument assigns nothing
        target, value = "", line
    elif re.fullmatch(r"\S+ ; del \S+.*", value):
        return "… = …; del …"
    else:
        target = "… = "
    if call := re.match(r"((?:[\w@#]+ (?:\.|::) )*[\w@#]+(?: < .*? >)?) \(", value):
        return f"{target}{call[1].replace(' ', '')}(…)"
    if not target:
        return " ".join(words[:3])
    without_names = re.sub(r"@[#\w]*", "…", value.removesuffix(" ;"))
    return f"{target}{without_names}" if len(without_names.split()) <= _SHORT else f"{target}expression"


#: An expression with at most so many tokens is part of the kind of its line.
_SHORT = 3

#: Kinds of lines in a call that pass, allocate, reuse or free buffers.
_BUFFER_LINE = re.compile(
    r"… = …; del …|(?:… = )?(?:del …|(?:empty_strided\w*|reinterpret_tensor|get_raw_stream|\S*\.run|kernel)\(…\))"
    r"|(?:triton|cpp)_\w+\(…\)|with .*|stream\w*|@ = .*"
)
#: Words that an edit of such a line consists of.
_BUFFER_WORDS = {
    "N", "arg", "buf", "del", "empty_strided_device", "getitem", "kernel", "primals", "reinterpret_tensor", "run",
    "stream", "tangents",
}  # fmt: skip


def _is_about_buffers(edit: Edit) -> bool:
    if edit.key[0] == "lines":
        return all(_BUFFER_LINE.fullmatch(line) for side in _kinds_of_lines(edit) for line in side)
    if edit.key[0] == "number":
        return any(word in edit.title for word in ("empty_strided", "reinterpret_tensor", ".run("))
    if edit.key[0] in ("operand", "moved"):
        return True
    if edit.key[-1] in ("kernel.run(…)", "kernel(…)") and not any("=" in word for word in edit.key):
        return True  # other arguments of a kernel
    words = set(re.findall(r"[A-Za-z_]\w*", " ".join(edit.key[1:])))
    is_renamed = edit.key[0] == "replaced" and len(edit.key) == 4 and bool(words & {"arg", "buf"})
    return bool(words) and (words <= _BUFFER_WORDS or is_renamed)


def _replaced_kernels(stored: str, new: str, *, loops_changed: bool) -> frozenset[str]:
    """The labels of kernels that are in one text only, that are of another kind, or that call other functions.

    `loops_changed`: the C++ loops are vectorised in another way, so that each changed C++ kernel is another kernel.
    """
    pairs, gone, come = match_parts(*(split_parts(split_facts(text)[1]) for text in (stored, new)))
    labels = {part.label for part in (*gone, *come) if part.kind == "kernel"}
    for a, b in pairs:
        if a.kind == "kernel" and a.lines != b.lines:
            is_other = describe_part(a) != describe_part(b) or _callees(a) != _callees(b)
            if is_other or (loops_changed and describe_part(b) == "a C++ kernel"):
                labels.add(b.label)
    return frozenset(labels)


def _callees(part: Part) -> Counter[str]:
    """The functions that a kernel calls and its loops: kernels with the same ones compute the same way."""
    body = "\n".join(line for line in part.lines if not line.startswith("@"))
    body = re.sub(r"\b(?:tmp|buf|in_ptr|out_ptr|in_out_ptr|x|r)\d+(?:_\w+)?\b", "", body)
    return Counter(re.findall(r"\b[a-zA-Z_][\w.:]*(?=\(|<[^<>]*>\()|\bfor\b", body))
