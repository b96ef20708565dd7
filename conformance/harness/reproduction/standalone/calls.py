"""Makes one call of a function and its backward, and records what they did. A part of each `reproduce.py`."""

import torch


def on_device(tensors, device):
    """Copies with the same strides, storage offsets, requires_grad and shared storages."""
    storages, copies = {}, {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        key = (storage.data_ptr() or name, tensor.dtype)
        if key not in storages:
            whole = tensor.detach().as_strided((storage.nbytes() // tensor.element_size(),), (1,), 0)
            storages[key] = whole.to(device, copy=True)
        copy = torch.empty(0, dtype=tensor.dtype, device=device)
        copy.set_(storages[key].untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
        copies[name] = copy.requires_grad_(tensor.requires_grad)
    return copies


def leaves(value, path="output"):
    """The leaves of nested tuples, lists and dicts: (path, leaf)."""
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    else:
        yield path, value


def structure(value):
    """The types of containers and leaves."""
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(structure, value))})"
    if isinstance(value, dict):
        return f"{type(value).__name__}({', '.join(f'{key}={structure(item)}' for key, item in value.items())})"
    return type(value).__name__


def outside(tensor):
    """The bytes of the tensor's storage, with its elements set to 0."""
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage()).clone()
    sizes = [1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    whole.as_strided(sizes, tensor.stride(), tensor.storage_offset()).zero_()
    return whole.view(torch.uint8).cpu()


def shared_storages(tensors):
    """Pairs of names of tensors that share storage."""
    pairs = set()
    first = {}
    for name, tensor in tensors.items():
        pointer = isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr()
        if pointer:
            pairs.update((other, name) for other in first.setdefault(pointer, []))
            first[pointer].append(name)
    return pairs


def outcome(fn, call, device, constants, context):
    """Calls the function and its backward. `call`: one of inputs.pt. Returns what they did, by kind of result."""
    inputs = on_device(call["inputs"], device)
    before = {name: outside(tensor.detach()) for name, tensor in inputs.items()}
    found = {"raised": None, "outputs": {}, "inputs": inputs, "gradients": {}}
    try:
        with context():
            value = fn(**inputs, **constants)
        found["structure"], found["outputs"] = structure(value), dict(leaves(value))
        changed = {name for name, bytes_ in before.items() if not torch.equal(bytes_, outside(inputs[name].detach()))}
        found["written outside"] = changed
        found["shared"] = shared_storages({**found["outputs"], **inputs})
        found["gradients"] = gradients(found["outputs"], inputs, call["cotangents"], device)
    except Exception as error:  # noqa: BLE001 - compiled must raise what eager raises
        found["raised"] = error
        found["changed"] = [name for name, tensor in inputs.items() if not unchanged(tensor, call["inputs"][name])]
    return found


def gradients(outputs, inputs, cotangents, device):
    """Calls the backward of the outputs that have a cotangent. Returns name of the input → gradient or None."""
    recorded = {}
    leaf_inputs = {name: tensor for name, tensor in inputs.items() if tensor.is_leaf and tensor.requires_grad}
    for name, tensor in leaf_inputs.items():  # a hook, because `tensor.grad` has the strides of the input
        tensor.register_hook(lambda gradient, name=name: recorded.__setitem__(name, gradient))
    chosen = {name: cotangent for name, cotangent in cotangents.items() if takes(outputs.get(name), cotangent)}
    if chosen:
        torch.autograd.backward([outputs[name] for name in chosen], list(on_device(chosen, device).values()))
    return {name: recorded.get(name, tensor.grad) for name, tensor in leaf_inputs.items()}


def takes(tensor, cotangent):
    """Whether the backward of an output takes the cotangent."""
    if not isinstance(tensor, torch.Tensor) or not tensor.requires_grad:
        return False
    return (tensor.shape, tensor.dtype) == (cotangent.shape, cotangent.dtype)


def unchanged(tensor, before):
    """Whether a tensor has the shape and the bits of another one, on the CPU."""
    one, other = (each.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for each in (tensor, before))
    return tensor.shape == before.shape and torch.equal(one, other)
