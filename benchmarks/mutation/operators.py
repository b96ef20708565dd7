"""The mutation operators: for a node of a function's syntax tree, the nodes that may stand in its place.

An operator changes one thing as a programmer could have written it by mistake. Names and text pieces are swapped for
others of the same kind, so that most mutants still generate code.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """`operator`: its name. `new`: the node in the place of the old one."""

    operator: str
    new: ast.AST


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
#: Names of functions, methods and operators of ATen, prims, Inductor's `ops` and SymPy.
_NAMES = {
    "add": "sub",
    "amax": "amin",
    "amin": "amax",
    "And": "Or",
    "argmax": "argmin",
    "argmin": "argmax",
    "bitwise_and": "bitwise_or",
    "bitwise_or": "bitwise_and",
    "ceil": "floor",
    "ceiling": "floor",
    "cos": "sin",
    "div": "mul",
    "eq": "ne",
    "exp": "expm1",
    "expm1": "exp",
    "floor": "ceil",
    "floordiv": "truncdiv",
    "ge": "gt",
    "gt": "ge",
    "isinf": "isnan",
    "isnan": "isinf",
    "le": "lt",
    "log": "log1p",
    "log1p": "log",
    "logical_and": "logical_or",
    "logical_or": "logical_and",
    "lower": "upper",
    "lt": "le",
    "Max": "Min",
    "max": "min",
    "maximum": "minimum",
    "Min": "Max",
    "min": "max",
    "minimum": "maximum",
    "mod": "remainder",
    "mul": "add",
    "ne": "eq",
    "Or": "And",
    "remainder": "mod",
    "rsqrt": "sqrt",
    "sin": "cos",
    "sqrt": "rsqrt",
    "sub": "add",
    "truediv": "mul",
    "truncdiv": "floordiv",
    "upper": "lower",
}
#: Names of a dimension.
_DIMENSIONS = frozenset({"axis", "dim"})
#: Keyword arguments without which nearly nothing can be called, or that change no result.
_NEEDED = frozenset(
    {"default", "device", "dtype", "inner_fn", "key", "layout", "name", "origin_node", "ranges", "traceback"}
)
_BUILTINS = {"max": "min", "min": "max", "any": "all", "all": "any"}
_DTYPES = {
    "bfloat16": "float16",
    "bool": "uint8",
    "complex64": "complex128",
    "double": "float",
    "float": "double",
    "float16": "bfloat16",
    "float32": "float64",
    "float64": "float32",
    "int16": "int32",
    "int32": "int64",
    "int64": "int32",
    "int8": "uint8",
    "long": "int32",
    "uint8": "int8",
}
#: Methods that return what they are called on, changed a little: the call is dropped.
_METHODS = frozenset(
    {
        "abs",
        "clamp",
        "clamp_min",
        "clone",
        "contiguous",
        "expand",
        "float",
        "masked_fill",
        "neg",
        "reciprocal",
        "reshape",
        "rstrip",
        "squeeze",
        "sum",
        "to",
        "unsqueeze",
        "view",
    }
)
#: Functions of which dropping the call leaves no mutant of interest, or none that runs.
_NOT_DROPPED = frozenset(
    {
        "TypeVar",
        "all",
        "any",
        "bool",
        "callable",
        "cast",
        "dict",
        "enumerate",
        "filter",
        "hasattr",
        "hash",
        "id",
        "int",
        "isinstance",
        "iter",
        "len",
        "list",
        "map",
        "namedtuple",
        "next",
        "print",
        "range",
        "repr",
        "reversed",
        "set",
        "sorted",
        "str",
        "sum",
        "super",
        "tuple",
        "type",
        "zip",
    }
)
_NOT_SWAPPED = frozenset(
    {
        "cast",
        "getattr",
        "hasattr",
        "isinstance",
        "issubclass",
        "setattr",
        "zip",
    }
)
#: Pieces of generated text, and what stands in their place. Each is changed where it occurs first in a string.
_PIECES = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r" <= ", " < "),
        (r" < ", " <= "),
        (r" >= ", " > "),
        (r" > ", " >= "),
        (r" == ", " != "),
        (r" != ", " == "),
        (r" \+ ", " - "),
        (r" - ", " + "),
        (r" \* ", " + "),
        (r" / ", " * "),
        (r" // ", " / "),
        (r" % ", " / "),
        (r" \+= ", " -= "),
        (r" && ", " || "),
        (r" \|\| ", " && "),
        (r" & ", " | "),
        (r" \| ", " & "),
        (r" >> ", " << "),
        (r" << ", " >> "),
        (r"\bmaximum\b", "minimum"),
        (r"\bminimum\b", "maximum"),
        (r"\bmax\b", "min"),
        (r"\bmin\b", "max"),
        (r"\bmax2\b", "min2"),
        (r"\bmin2\b", "max2"),
        (r"\bargmax\b", "argmin"),
        (r"\bargmin\b", "argmax"),
        (r"\bany\b", "all"),
        (r"\bsum\b", "max"),
        (r"\bprod\b", "sum"),
        (r"\bfloor\b", "ceil"),
        (r"\bceil\b", "floor"),
        (r"\btrunc\b", "floor"),
        (r"\bsin\b", "cos"),
        (r"\bcos\b", "sin"),
        (r"\bexp\b", "exp2"),
        (r"\bexp2\b", "exp"),
        (r"\bexpm1\b", "exp"),
        (r"\blog\b", "log2"),
        (r"\blog2\b", "log"),
        (r"\blog1p\b", "log"),
        (r"\brsqrt\b", "sqrt"),
        (r"\bsqrt\b", "rsqrt"),
        (r"\bfloat32\b", "float16"),
        (r"\bfloat64\b", "float32"),
        (r"\bfloat\b", "double"),
        (r"\bdouble\b", "float"),
        (r"\bint64(_t)?\b", r"int32\1"),
        (r"\bint32(_t)?\b", r"int64\1"),
        (r"-inf\b", "inf"),
        (r"(?<!-)\binf\b", "-inf"),
        (r"-(?=std::numeric_limits)", ""),
        (r"\btrue\b", "false"),
        (r"\bfalse\b", "true"),
        (r"\bTrue\b", "False"),
        (r"\bFalse\b", "True"),
        (r"(?<![\w.])0(?![\w.])", "1"),
        (r"(?<![\w.])1(?![\w.])", "0"),
        (r"(?<![\w.])0\.0(?!\w)", "1.0"),
        (r"(?<![\w.])1\.0(?!\w)", "0.0"),
        (r"\bxmask\b", "True"),
        (r"!(?=[\w({])", ""),
        (r"~(?=[\w({])", ""),
        (r"\bisnan\b", "isinf"),
        (r"\blogical_and\b", "logical_or"),
        (r"\blogical_or\b", "logical_and"),
    )
)


def edits(node: ast.AST, *, text: bool) -> Iterator[Edit]:
    """All edits of a node. `text`: strings of this file become generated code, so they have edits too."""
    for kind, function in _BY_KIND:
        if isinstance(node, kind):
            yield from function(node)
    if text and isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _of_text(node)


def _reads_option(node: ast.expr) -> bool:
    """Whether a condition is an option of Inductor. Both of its values are right, so the opposite is no mistake."""
    while isinstance(node, (ast.Attribute, ast.UnaryOp)):
        node = node.value if isinstance(node, ast.Attribute) else node.operand
    return isinstance(node, ast.Name) and node.id in {"config", "inductor_config"}


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _of_compare(node: ast.Compare) -> Iterator[Edit]:
    if _reads_option(node.left):
        return
    for number, operation in enumerate(node.ops):
        ops = list(node.ops)
        ops[number] = _COMPARISONS[type(operation)]()
        yield Edit("comparison", _with(node, ops=ops))


def _of_arithmetic(node: ast.BinOp) -> Iterator[Edit]:
    new = _ARITHMETIC.get(type(node.op))
    of_text = isinstance(node.left, (ast.JoinedStr, ast.List)) or isinstance(node.right, (ast.JoinedStr, ast.List))
    of_text |= isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    if new is not None and not of_text:
        yield Edit("arithmetic", _with(node, op=new()))


def _of_sign(node: ast.UnaryOp) -> Iterator[Edit]:
    if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield Edit("arithmetic", node.operand)
    elif isinstance(node.op, ast.Not) and not _reads_option(node.operand):
        yield Edit("condition", node.operand)


def _of_junction(node: ast.BoolOp) -> Iterator[Edit]:
    if not any(map(_reads_option, node.values)):
        yield Edit("junction", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
    for number, value in enumerate(node.values):
        if _reads_option(value):
            continue
        rest = node.values[:number] + node.values[number + 1 :]
        yield Edit("dropped condition", rest[0] if len(rest) == 1 else _with(node, values=rest))


def _of_test(node: ast.If | ast.IfExp) -> Iterator[Edit]:
    """Not for what other operators change: a comparison, `not`."""
    compared = isinstance(node.test, ast.Compare) and len(node.test.ops) == 1
    negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    if not compared and not negated and not _reads_option(node.test):
        yield Edit("condition", _with(node, test=ast.UnaryOp(ast.Not(), node.test)))


def _of_constant(node: ast.Constant) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield Edit("constant", _with(node, value=not value))
    elif isinstance(value, int):
        yield Edit("constant", _with(node, value=value + 1))
        if value:
            yield Edit("constant", _with(node, value=value - 1))
    elif isinstance(value, float):
        yield Edit("constant", _with(node, value=value + 1 if value else 1.0))
    elif isinstance(value, str) and value in {"inf", "-inf"}:
        yield Edit("identity", _with(node, value="inf" if value == "-inf" else "-inf"))
        yield Edit("initial value", _with(node, value=0))


def _of_attribute(node: ast.Attribute) -> Iterator[Edit]:
    if not isinstance(node.ctx, ast.Load):
        return
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    if owner in {"torch", "tl"} and node.attr in _DTYPES:
        yield Edit("dtype", _with(node, attr=_DTYPES[node.attr]))
    elif owner == "math" and node.attr == "inf":
        yield Edit("identity", ast.UnaryOp(ast.USub(), node))
        yield Edit("initial value", ast.Constant(0))
    elif node.attr in _NAMES:
        yield Edit("other function", _with(node, attr=_NAMES[node.attr]))


def _of_name(node: ast.Name) -> Iterator[Edit]:
    if isinstance(node.ctx, ast.Load) and node.id in _DIMENSIONS:  # 0 and 1, or -1 and -2, change places
        yield Edit("dimension", ast.BinOp(node, ast.BitXor(), ast.Constant(1)))
    if isinstance(node.ctx, ast.Load) and node.id in _BUILTINS:
        yield Edit("other function", _with(node, id=_BUILTINS[node.id]))


def _of_keywords(node: ast.Call) -> Iterator[Edit]:
    """Leaves out one keyword argument: its default counts."""
    for number, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in _NEEDED:
            rest = node.keywords[:number] + node.keywords[number + 1 :]
            yield Edit("dropped argument", _with(node, keywords=rest))


def _of_call(node: ast.Call) -> Iterator[Edit]:
    if isinstance(node.func, ast.Attribute):
        name, owner = node.func.attr, node.func.value
    elif isinstance(node.func, ast.Name):
        name, owner = node.func.id, None
    else:
        return
    plain = [each for each in node.args if not isinstance(each, ast.Starred)]
    if len(plain) != len(node.args):
        return
    if name == "where" and len(plain) == 3:
        yield Edit("mask", plain[1])
        yield Edit("mask", plain[2])
    elif name == "masked" and len(plain) == 3:
        yield Edit("mask", ast.Call(plain[1], [], []))
    elif name in {"to_dtype", "to_dtype_bitcast"} and plain:
        yield Edit("cast", plain[0])
    elif name in _METHODS and owner is not None and not isinstance(owner, ast.Name | ast.Attribute | ast.Call):
        yield Edit("dropped call", owner)
    elif name in _METHODS and isinstance(owner, ast.Name) and owner.id not in _MODULES:
        yield Edit("cast" if name in {"to", "float"} else "dropped call", owner)
    elif len(plain) == 1 and not node.keywords and name not in _NOT_DROPPED and not name.startswith("is_"):
        yield Edit("dropped call", plain[0])
    if len(plain) >= 2 and name not in _NOT_SWAPPED and _are_alike(*plain[:2]):
        yield Edit("swapped arguments", _with(node, args=[plain[1], plain[0], *plain[2:]]))


def _are_alike(first: ast.expr, second: ast.expr) -> bool:
    """Whether two arguments may be of one type: both are no literals, no functions and no dtypes; and not the same."""
    odd = (ast.Constant, ast.JoinedStr, ast.Lambda, ast.List, ast.Tuple, ast.Dict)
    if any(isinstance(each, odd) or "dtype" in ast.unparse(each) for each in (first, second)):
        return False
    return ast.dump(first) != ast.dump(second)


_MODULES = frozenset({"ops", "aten", "prims", "torch", "sympy", "math", "tl", "L", "lowering", "np", "V"})


def _of_statement(node: ast.stmt) -> Iterator[Edit]:
    """Deletes a statement without which later ones still find all their names."""
    target = getattr(node, "targets", [None])[0]
    deleted = isinstance(node, (ast.AugAssign, ast.Continue, ast.Break))
    deleted |= isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    deleted |= isinstance(target, ast.Subscript)
    if isinstance(node, ast.Assign) and isinstance(target, ast.Name):
        names = {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
        deleted |= target.id in names
    if deleted:
        yield Edit("deleted statement", ast.Pass())


def _of_text(node: ast.Constant) -> Iterator[Edit]:
    for pattern, new in _PIECES:
        value = pattern.sub(new, node.value, count=1)
        if value != node.value:
            yield Edit("generated text", _with(node, value=value))


_BY_KIND = (
    (ast.Compare, _of_compare),
    (ast.BinOp, _of_arithmetic),
    (ast.UnaryOp, _of_sign),
    (ast.BoolOp, _of_junction),
    ((ast.If, ast.IfExp), _of_test),
    (ast.Constant, _of_constant),
    (ast.Attribute, _of_attribute),
    (ast.Name, _of_name),
    (ast.Call, _of_call),
    (ast.Call, _of_keywords),
    (ast.stmt, _of_statement),
)
