"""What differs between two outcomes of calls.py: the compiled function's and eager's. A part of each `reproduce.py`."""

import torch

from conformance.harness.reproduction.standalone.tolerance import wrong_elements


def differences(got, eager, call):
    """What differs in one call: (name of the tensor, what differs, text)."""
    if got["raised"] or eager["raised"]:
        if not raises_like(got, eager["raised"]):
            text = f"compiled raised {raised_text(got)}\n  eager raised {raised_text(eager)}"
            yield "", "raises", text
        return
    if got["structure"] != eager["structure"]:
        yield "", "structure", f"the result is {got['structure']}, eager's is {eager['structure']}"
    if got["arguments"] != eager["arguments"] or got["inputs"].keys() != eager["inputs"].keys():
        text = f"the arguments after the call are {got['arguments']}, eager's are {eager['arguments']}"
        more = sorted(got["inputs"].keys() ^ eager["inputs"].keys())
        yield "", "structure", f"{text}; one side alone has {', '.join(more) or 'nothing'}"
    for pair in sorted(got["shared"] ^ eager["shared"]):
        who = "only the compiled ones" if pair in got["shared"] else "only eager's"
        yield ", ".join(pair), "aliasing", f"{who} share storage"
    for name in sorted(got["written outside"] - eager["written outside"]):
        yield name, "outside write", "the call wrote to the input's storage outside of its elements"
    for kind, title in (("outputs", "{}"), ("inputs", "{} after the call"), ("gradients", "gradient of {}")):
        for name, one in eager[kind].items():
            if kind == "inputs" and name not in got[kind]:
                continue
            yield from tensor_differences(title.format(name), kind, got[kind].get(name), one, call)


def tensor_differences(title, kind, got, eager, call):
    """What differs in one tensor, or in one result that is no tensor."""
    if not isinstance(eager, torch.Tensor) or not isinstance(got, torch.Tensor):
        same = repr(got) == repr(eager) if kind != "gradients" else got is eager
        if not same and not (isinstance(eager, torch.Tensor) or isinstance(got, torch.Tensor)):
            yield title, "constant", f"it is {got!r}, eager's is {eager!r}"
        elif not same:
            has, has_not = ("eager", "compiled") if isinstance(eager, torch.Tensor) else ("compiled", "eager")
            rule = "constant" if kind == "inputs" else "gradient"
            yield title, rule, f"{has} computes one, {has_not} none"
        return
    for attribute in ("device", "dtype", "shape", "requires_grad"):
        if getattr(got, attribute) != getattr(eager, attribute):
            yield title, attribute, f"it is {getattr(got, attribute)}, eager's is {getattr(eager, attribute)}"
    if got.shape != eager.shape:
        return
    significant = [size > 1 and a != b for size, a, b in zip(got.shape, got.stride(), eager.stride(), strict=True)]
    if got.numel() and any(significant):
        yield title, "strides", f"they are {got.stride()}, eager's are {eager.stride()}"
    if got.storage_offset() != eager.storage_offset():
        yield title, "storage offset", f"it is {got.storage_offset()}, eager's is {eager.storage_offset()}"
    if title in call["limits"] and got.dtype == eager.dtype:
        one, other = got.detach().cpu(), eager.detach().cpu()
        wrong, allowed = wrong_elements(one, other, call["limits"][title])
        wrong &= ~call["limits"][title].get("undecided", torch.zeros_like(wrong))
        if wrong.any():
            index = tuple(wrong.nonzero()[0].tolist())
            text = f"{int(wrong.sum())} of {wrong.numel()} elements are wrong; the first at {list(index)}: "
            text += f"compiled {one[index].item()!r}, eager {other[index].item()!r}, "
            expected = call["limits"][title]["expected"]
            text += f"float64 {expected[index].item()!r}, " if expected is not None else ""
            yield title, "values", f"{text}{allowed}"


def raises_like(got, expected):
    """Whether compiled raised eager's exception, before it changed an input. Dynamo or Inductor may have wrapped it."""
    if got["raised"] is None or expected is None or got["changed"]:
        return False
    kinds = [{kind.__name__ for kind in type(each).__mro__} for each in (got["raised"], original(got["raised"]))]
    return all(type(expected).__name__ in names for names in kinds)


def original(error):
    """The exception that Dynamo or Inductor wrapped, or the exception itself."""
    for _ in range(12):
        is_wrapper = type(error).__module__.startswith(("torch._dynamo", "torch._inductor"))
        inner = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
        if inner is None or not (is_wrapper or str(error).startswith("Dynamo failed to run FX node")):
            break
        error = inner
    return error


def raised_text(outcome):
    """What a call raised, and which inputs it had changed."""
    error = outcome["raised"]
    if error is None:
        return "nothing"
    changed = f", after it changed {', '.join(outcome['changed'])}" if outcome["changed"] else ""
    return f"{type(error).__name__}: {error}{changed}"
