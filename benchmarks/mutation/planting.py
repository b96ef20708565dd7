"""Plants a mutant into this process: the changed function gets new code, and stays the same object.

So a function that is registered in a table, wrapped by a decorator or held by a closure changes too. Plant only in a
process that ends afterwards.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType

from mutation.making import Mutant, Tree

#: Names a code object: file, first line, qualified name.
_Key = tuple[str, int, str]


class NotPlantedError(Exception):
    """The mutant cannot be planted; the message says why."""


class Functions:
    """The functions of this process that have code of some files, also those that closures and tables hold."""

    def __init__(self, files: Collection[str]) -> None:
        wanted = frozenset(files)
        self._by_code: dict[_Key, list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # the suite freezes what exists after the imports, and frozen objects are not listed
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename in wanted:
                self._by_code[_key(each.__code__)].append(each)

    def plant(self, tree: Tree, mutant: Mutant) -> int:
        """Gives all functions with the changed code the new code. Returns how many there were.

        Raises NotPlantedError where the change makes no valid function, or where none has the code.
        """
        old = _compiled(tree, None, mutant.top)
        new = _compiled(tree, mutant, mutant.top)
        swapped = 0
        for before, after in _changed(old, new):
            for function in self._by_code.get(_key(before), ()):
                function.__code__ = after
                swapped += 1
        if not swapped:
            raise NotPlantedError("no function of this process has the changed code")
        return swapped


def _compiled(tree: Tree, mutant: Mutant | None, top: int) -> CodeType:
    try:
        return compile(tree.statement(mutant, top), str(tree.source.path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, TypeError) as error:
        raise NotPlantedError(f"it is no valid Python: {error}") from None


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code objects inside `old` that differ in `new`, with those of the functions around them."""
    before, after = _inner(old), _inner(new)
    if [_key(code) for code in before] != [_key(code) for code in after]:
        raise NotPlantedError("it adds or removes a function")
    for one, other in zip(before, after, strict=True):
        if one != other:
            if one.co_freevars != other.co_freevars:
                raise NotPlantedError("the function refers to other variables of the functions around it")
            yield one, other
            yield from _changed(one, other)


def _inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _key(code: CodeType) -> _Key:
    return code.co_filename, code.co_firstlineno, code.co_qualname
