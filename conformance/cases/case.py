"""Case: what is compiled. A function, its arguments, and one value of each axis. A case knows no device.

    @case(x=image(3, size=[224, 256], dtype=["u8", "f32"]), require={"all": {"kernels": 1}})
    def test_hflip(x):
        return x.flip(-1)

Every list or dict among the keywords is an axis. The labels of a case, in the order of the axes, make its id: this
function declares hflip-224-u8, hflip-224-f32, hflip-256-u8 and hflip-256-f32.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from conformance.capture import call_modes
from conformance.cases import first_mistakes
from conformance.cases.axes import Axis, CaseError, declared_rows, is_axis, label_of
from conformance.cases.inputs import Input, Recipe
from conformance.cases.nested.groups import assembled, groups_in, members
from conformance.cases.pairwise import pairwise_rows
from conformance.cases.property_values import problem_of_keyword
from conformance.cases.wrong_arguments import problem_of_argument
from conformance.containers import Leaf
from conformance.documentation import reference
from conformance.settings import CHECKS
from conformance.words import did_you_mean

__all__ = ["COMPILE_KEYWORDS", "Case", "CaseError", "CaseFunction", "case", "label_of", "resized_arguments"]

#: Keywords of @case that say how to compile and call the function. Each may be an axis.
COMPILE_KEYWORDS = ("grad", "dynamic", "config", "mode")

#: The number of the call with other sizes. Ordinary calls are 0 and 1.
_RESIZED_CALL = 2


@dataclass(frozen=True, eq=False)
class Case:
    """One function with one value of each axis.

    `operator`: the file's name without `test_`. `name`: the function's name without `test_`.
    `axes`: the names of the axes. `labels`: one label for each of them.
    `arguments`: name → Input, ModuleInput, Group or constant, in the order of the signature. `choices`: path of an
    input or module → property → value. `grad`: the paths of those that require a gradient. `dynamic`: whether shapes
    are dynamic. `config`: options of Inductor, and of Dynamo as `dynamo.capture_scalar_outputs`. `mode`: see
    call_modes.py.
    `prepare`: called before the arguments are made.
    `only`: selector → reason: the targets and torch versions that the case is for; empty: all.
    `require`, `missed`: selector → fact → value: see expectations/. `numerics`: see tolerance_policy.py.
    `needs`: the package that the case needs beside torch; "" if none.
    `combined`: made by --thorough from axes that vary one at a time. Nothing is stored for such a case.
    `checks`: the only checks of the case; empty: all that the run selects.
    `left_out`: check that is not made → why, for the record.
    `compared_as`: path of an input → its shape, and "config" → options: the form that runs instead of this one, which
    is only generated, without memory for its tensors. Empty: this one runs.
    `further_calls`: at most so many further calls of numerics, while a result is the same constant in all calls.
    """

    operator: str
    name: str
    labels: tuple[str, ...]
    fn: Callable[..., Any]
    file: Path
    arguments: Mapping[str, Any]
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    grad: tuple[str, ...] = ()
    dynamic: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    require: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    numerics: Mapping[str, Any] = field(default_factory=dict)
    missed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    axes: tuple[str, ...] = ()
    mode: str = "plain"
    combined: bool = False
    prepare: Callable[[], None] | None = None
    only: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    checks: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    further_calls: int = 0
    compared_as: Mapping[str, Any] = field(default_factory=dict)

    @property
    def form_that_runs(self) -> Case:
        """The case itself, or what runs in its place: see `compared_as`."""
        if not self.compared_as:
            return self
        shapes = {path: shape for path, shape in self.compared_as.items() if path != "config"}
        choices = {path: {**choice, "shape": shapes.get(path, choice.get("shape"))} if path in shapes else choice
                   for path, choice in self.choices.items()}  # fmt: skip
        config = {**self.config, **self.compared_as.get("config", {})}
        return dataclasses.replace(self, choices=choices, config=config, compared_as={})

    @property
    def has_stored_code(self) -> bool:
        """Whether generated code is stored for the case, and compared with what is stored."""
        return not self.combined and (not self.checks or "code" in self.checks)

    @property
    def id(self) -> str:
        """`flip/hflip-224-u8-channels_last`: also the path of its snapshot in expected_code/, without .txt."""
        return f"{self.operator}/{'-'.join((self.name, *self.labels))}"

    @functools.cached_property
    def recipes(self) -> dict[str, Recipe]:
        """The recipes of the tensors and modules, by path: "x", "batch.y", "masks[0]". In order."""
        found = [member for name, argument in self.arguments.items() for member in members(argument, name)]
        return {path: recipe for path, recipe, _ in found}

    @property
    def inputs(self) -> dict[str, Input]:
        """The recipes that make tensors, by path, as in `recipes`."""
        return {path: recipe for path, recipe in self.recipes.items() if isinstance(recipe, Input)}

    @property
    def positions(self) -> dict[str, int]:
        """Path of a recipe → its number. Each argument has one number, and a group has one for each recipe in it."""
        found: dict[str, int] = {}
        number = 0
        for name, argument in self.arguments.items():
            paths = [path for path, _, _ in members(argument, name)]
            found |= {path: number + index for index, path in enumerate(paths)}
            number += max(1, len(paths))
        return found

    def build(self, call: int = 0) -> dict[str, Any]:
        """The arguments by name. Tensors are on the CPU; cases/seeds.py says what their values depend on.

        `call`: the number of the call.
        Tensors named in `grad` are leaves that require a gradient. Of modules named in `grad`, those parameters do that
        require one as they are made. Calls `prepare` first, and raises what that raises, and CaseError for a module
        that cannot be built.
        """
        return self.assemble(self.make_inputs(call))

    def make_inputs(self, call: int = 0, choices: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
        """The tensors and modules by path, as `build` has them. `choices`: instead of those of the form that runs."""
        if self.prepare is not None:
            self.prepare()
        choices, made = choices or self.form_that_runs.choices, {}
        for path, position in self.positions.items():
            recipe = self.recipes[path]
            made[path] = recipe.build(choices[path], position, call)
            if path not in self.grad or isinstance(recipe, Input):
                made[path].requires_grad_(path in self.grad)
        return made

    def assemble(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name. `made`: the tensors and modules by path."""
        return {name: assembled(argument, name, made) for name, argument in self.arguments.items()}

    def with_config(self, options: Mapping[str, Any]) -> Case:
        """This case with options of Inductor over its own."""
        return dataclasses.replace(self, config={**self.config, **options}) if options else self

    def partner(self, name: str) -> Case:
        """The case of the function `test_<name>` in the same file with the same labels. Raises LookupError."""
        function = self.fn.__globals__.get(f"test_{name}")
        for other in getattr(function, "cases", ()):
            if other.labels == self.labels:
                return other
        raise LookupError(f"{self.id}: there is no test_{name} with the labels {'-'.join(self.labels)}")


class CaseFunction(Protocol):
    """What @case makes of a function: a test for pytest, and its cases."""

    cases: list[Case]
    #: The cases that --thorough adds: combinations of axes that vary one at a time.
    combined: Callable[[], list[Case]]

    def __call__(self, conformance_item: Any, conformance_report: Any) -> None: ...


def case(
    *unnamed: Any,
    require: Mapping[str, Mapping[str, Any]] | None = None,
    missed: Mapping[str, Mapping[str, Any]] | None = None,
    numerics: Mapping[str, Any] | None = None,
    compared_as: Mapping[str, Any] | None = None,
    prepare: Callable[[], None] | None = None,
    only: Mapping[str, str] | None = None,
    needs: str = "",
    checks: Sequence[str] = (),
    vary: str = "product",
    also: Sequence[Mapping[str, Any]] = (),
    **declared: Any,
) -> Callable[[Callable[..., Any]], CaseFunction]:
    """Declares the cases of a function: how its arguments are made, how it is compiled, and what must be true then.

        @case(
            x=tensor(64, 1000, dtype=["f32", "bf16"]),      # an input; its dtype is an axis: 2 values
            dim=[0, -1],                                    # constants; an axis: 2 values
            grad=[False, True],                             # an axis: 2 values
            vary="one_at_a_time",                           # 4 cases instead of 2 × 2 × 2
            also=[{"x.dtype": "bf16", "grad": True}],       # one more
            require={"all": {"fallbacks": []}, "cpu f32": {"vectorised": "yes"}},
            missed={"gpu dim0": {"kernels": 1, "judgement": "one kernel can hold a column"}},
            numerics={"for": {"cuda bf16": {"factor": 8, "reason": "exp is computed in bf16"}}},
        )
        def test_softmax(x, dim):
            return x.softmax(dim)

    declares softmax-f32-dim0-forward (the base: the first value of each axis), softmax-bf16-dim0-forward,
    softmax-f32-dimm1-forward, softmax-f32-dim0-backward and softmax-bf16-dim0-backward. pytest runs each on every
    target; `softmax-f32-dim0-forward-cuda_sm90` is one of its ids.

    Keywords that declare arguments and axes:

    - The name of a parameter declares its argument: an input (tensor(), image()), a module (module()), a collection of
      inputs (group()), a constant, or an axis of constants.
    - `grad`: the inputs that require a gradient, as "x y", or True for all. `dynamic`: dynamic shapes (bool).
      `config`: options of Inductor, and of Dynamo as `dynamo.capture_scalar_outputs`.
      `mode`: "plain", "no_grad", "inference" or "autocast".
    - Any other keyword is a property (`dtype`, `shape`, `layout`, `size`) for all inputs that do not set it themselves.

    A list is an axis, and its labels are made from its values. A dict of label → value is an axis with your labels. A
    tuple is one value: `shape=[(20,), (64, 1000)]` has two.

    Keywords that choose the combinations:

    - `vary`: "product" (the default) declares all combinations of the axes. "one_at_a_time" declares the base and, for
      each other value of an axis, the base with that value. --thorough then adds rows until all pairs of values occur.
    - `also`: more combinations. Each is a dict of axis → label or value; axes that it does not name have their base
      value. The axis of one input is named "x.dtype".

    Keywords that say what must be true. Their selectors are "all" or words that must all apply: a target's name, cpu,
    cuda, xpu, gpu, labels, and ranges of torch versions such as "torch>=2.13":

    - `require`: selector → fact → value. A fact with another value fails the check `requirements`, on every torch
      version. `python -m conformance show ID --facts` lists the facts. See expectations/requirements.py.
    - `missed`: as `require`, for what Inductor should do and does not do yet; `judgement` says why it should. It fails
      nothing; `python -m conformance list --missed` lists it. See expectations/missed_optimisations.py.
    - `numerics`: a wider or narrower tolerance, or a check to leave out, each with a reason. See tolerance_policy.py.
    - `compared_as`: for sizes that no machine holds: {"x": (1025,), "config": {…}}. Code is generated for the declared
      sizes without their memory; numerics are those of this form. Options of Inductor that lower its thresholds give
      it the same kernels: the check fails where they differ in more than sizes.
    - `only`: selector → reason, if the case cannot run everywhere: {"gpu": "Triton has no backend for the CPU"}. On
      other targets pytest skips it and prints the reason.
    - `needs`: a package that the case needs beside torch, such as "transformers". Where it is not installed, or does
      not load, pytest skips the case and prints the reason. Import it in the function that makes the module.
    - `checks`: the only checks of the case, such as ("numerics", "requirements"); without it, all. Without "code",
      nothing is stored. Such a case is excluded from a target that this machine lacks, with the reason: nothing
      would be compared there.
    - `prepare`: a function that is called before the arguments are made, such as one that loads C++ operators.

    Raises CaseError for a wrong declaration; pytest prints it with the file and line.
    """
    if problem := first_mistakes.problem_of_unnamed(unnamed):
        raise CaseError(problem)

    def decorate(fn: Callable[..., Any]) -> CaseFunction:
        where = fn.__name__
        if not where.startswith("test_"):
            raise CaseError(
                f"{where}: the name of a case's function must start with test_; rename it to test_{where.lstrip('_')}"
            )
        if vary not in ("product", "one_at_a_time"):
            raise CaseError(f"{where}: vary is {vary!r}; it must be 'product' or 'one_at_a_time'")
        if problem := first_mistakes.problem_of_function(fn):
            raise CaseError(f"{where}: {problem}")
        unknown = [name for name in checks if name not in CHECKS]
        if unknown or isinstance(checks, str):
            raise CaseError(f"{where}: checks is {checks!r}; it must be a tuple of {', '.join(CHECKS)}")
        if not isinstance(needs, str) or (needs and not needs.isidentifier()):
            raise CaseError(f"{where}: needs is {needs!r}; it must be the name of one package, such as 'transformers'")
        common = {
            "require": require or {},
            "missed": missed or {},
            "numerics": numerics or {},
            "compared_as": compared_as or {},
            "prepare": prepare,
            "only": only or {},
            "needs": needs,
            "checks": tuple(checks),
        }
        if problem := first_mistakes.problem_of_expectations(common):
            raise CaseError(f"{where}: {problem}")
        declaration = _Declaration(fn, declared, common)
        cases = list(declaration.cases(declared_rows(declaration.axes, vary, also, where)))
        repeated = [id_ for id_, count in Counter(each.id for each in cases).items() if count > 1]
        if repeated:
            raise CaseError(
                f"{where}: two cases have the id {min(repeated)}; also= repeats a combination: leave it out there"
            )

        def combined() -> list[Case]:
            if vary == "product":
                return []
            rows = pairwise_rows([list(axis.values) for axis in declaration.axes], [each.labels for each in cases])
            return list(declaration.cases(rows, combined=True))

        return function_of_cases(fn, cases, combined)

    return decorate


def cases_of(value: Any) -> Sequence[Case]:
    """The cases of a function that @case decorates; none for any other value."""
    cases = getattr(value, "cases", ())
    return cases if isinstance(cases, list) and all(isinstance(each, Case) for each in cases) else ()


def function_of_cases(
    named: Callable[..., Any], cases: list[Case], combined: Callable[[], list[Case]] = list
) -> CaseFunction:
    """What pytest collects for the cases of one function. It has the name, module and docstring of `named`."""

    def test(conformance_item: Any, conformance_report: Any) -> None:
        conformance_item.run(conformance_report)

    test.__name__, test.__qualname__, test.__doc__ = named.__name__, named.__qualname__, named.__doc__
    test.__module__ = named.__module__
    if marks := getattr(named, "pytestmark", None):  # below @case: skip, xfail
        test.pytestmark = list(marks)  # type: ignore[attr-defined]
    function = cast("CaseFunction", test)  # a function has no place to declare its attributes
    function.cases, function.combined = cases, combined
    return function


class _Declaration:
    """A function, its arguments and its axes, as @case declares them. Raises CaseError for a keyword without use."""

    def __init__(self, fn: Callable[..., Any], declared: Mapping[str, Any], common: Mapping[str, Any]) -> None:
        self.fn = fn
        self.common = common
        self.parameters = list(inspect.signature(fn).parameters)
        self._refuse_missing_arguments(declared)
        arguments = {name: declared[name] for name in self.parameters}
        self._refuse_wrong_arguments(arguments)
        self.arguments = {name: each for name, each in arguments.items() if isinstance(each, Leaf)}
        found = [member for name, each in self.arguments.items() for member in members(each, name)]
        self.recipes = {path: recipe for path, recipe, _ in found}
        self._owners = {path: owners for path, _, owners in found}
        self._refuse_unknown_keywords(declared)
        self.axes: list[Axis] = []
        self.fixed: dict[str, Any] = {}
        for name, value in declared.items():
            if name not in self.arguments:
                self._add(name, name, value)
                continue
            for path, group in groups_in(value, name):
                self._add_properties(path, group.properties)
            for path, recipe, _ in members(value, name):
                self._add_properties(path, recipe.properties)

    def _add_properties(self, path: str, properties: Mapping[str, Any]) -> None:
        for name, value in properties.items():
            self._add(name, f"{path}.{name}", value)

    def _add(self, kind: str, name: str, value: Any) -> None:
        if is_axis(kind, value):
            self.axes.append(Axis.from_values(name, value))
        else:
            self.fixed[name] = value

    def _refuse_missing_arguments(self, declared: Mapping[str, Any]) -> None:
        missing = [name for name in self.parameters if name not in declared]
        if missing:
            raise CaseError(f"{self.fn.__name__}: {first_mistakes.problem_of_missing(self.fn, missing[0])}")

    def _refuse_wrong_arguments(self, arguments: Mapping[str, Any]) -> None:
        for name, value in arguments.items():
            if problem := problem_of_argument(name, value):
                raise CaseError(f"{self.fn.__name__}: {problem}")

    def _refuse_unknown_keywords(self, declared: Mapping[str, Any]) -> None:
        open_properties = {name for each in self.recipes.values() for name in each.open_properties}
        for name in declared:
            if name not in self.parameters and name not in COMPILE_KEYWORDS and name not in open_properties:
                own = inspect.signature(case).parameters
                near = did_you_mean(name, [*own, *self.parameters, *COMPILE_KEYWORDS, *open_properties])
                raise CaseError(
                    f"{self.fn.__name__}: the keyword {name!r} is neither a parameter of the function "
                    f"({', '.join(self.parameters) or 'it has none'}), nor one of {', '.join(COMPILE_KEYWORDS)}, "
                    f"nor a property that an input leaves open ({', '.join(sorted(open_properties)) or 'none does'}): "
                    f"{reference('public-names', 'keywords-of-case')}{near}"
                )

    def cases(self, rows: Iterable[tuple[str, ...]], *, combined: bool = False) -> Iterator[Case]:
        """A case for each row of labels. Raises CaseError for an unknown mode, or a `grad` without an input."""
        where = self.fn.__name__
        file = Path(inspect.getsourcefile(self.fn) or "unknown")
        for labels in rows:
            chosen = self.fixed | {axis.name: axis.values[label] for axis, label in zip(self.axes, labels, strict=True)}
            choices = {path: self._choices(path, recipe, chosen) for path, recipe in self.recipes.items()}
            self._refuse_wrong_values(chosen, choices)
            self._refuse_other_forms(choices)
            yield Case(
                operator=file.stem.removeprefix("test_"),
                name=where.removeprefix("test_"),
                labels=labels,
                fn=self.fn,
                file=file,
                arguments={name: self.arguments.get(name, chosen.get(name)) for name in self.parameters},
                choices=choices,
                grad=self._grad(chosen.get("grad"), choices),
                dynamic=bool(chosen.get("dynamic", False)),
                config=dict(chosen.get("config") or {}),
                mode=_mode(chosen.get("mode", "plain"), where),
                **self.common,
                axes=tuple(axis.name for axis in self.axes),
                combined=combined,
            )

    def _refuse_other_forms(self, choices: Mapping[str, Mapping[str, Any]]) -> None:
        for path, shape in self.common["compared_as"].items():
            if path == "config":
                continue
            recipe = self.recipes.get(path)
            if recipe is None or "shape" not in recipe.properties:
                raise CaseError(f"{self.fn.__name__}: compared_as names {path!r}; it takes the shapes of inputs: "
                                f"{', '.join(self.recipes)}, and 'config'")  # fmt: skip
            if problem := recipe.problem_of({**choices[path], "shape": shape}):
                raise CaseError(f"{self.fn.__name__}: compared_as: {path}.{problem}")

    def _refuse_wrong_values(self, chosen: Mapping[str, Any], choices: Mapping[str, Mapping[str, Any]]) -> None:
        for name in COMPILE_KEYWORDS:
            if name not in self.parameters and (problem := problem_of_keyword(name, chosen.get(name))):
                raise CaseError(f"{self.fn.__name__}: {name} is {chosen[name]!r}: {problem}")
        for path, recipe in self.recipes.items():
            if problem := recipe.problem_of(choices[path]):
                raise CaseError(f"{self.fn.__name__}: {path}.{problem}")

    def _choices(self, path: str, recipe: Recipe, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The properties: its own value, else that of a group around it, else that of the case's keyword, else None."""
        choices = {}
        for name in recipe.properties:
            value = chosen.get(f"{path}.{name}")
            if value is None and (recipe.inherited is None or name in recipe.inherited):
                keys = [*(f"{owner}.{name}" for owner in self._owners[path]), name]
                value = next((chosen[key] for key in keys if chosen.get(key) is not None), None)
            choices[name] = value
        return choices

    def _grad(self, value: Any, choices: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
        """The paths that `grad` names. True names all that can have a gradient, and a group all such members."""
        if not value:
            return ()
        able = [path for path, recipe in self.recipes.items() if recipe.can_have_gradient(choices[path])]
        if value is True:
            if not able:
                dtypes = ", ".join(f"{path}: {each['dtype']}" for path, each in choices.items() if each.get("dtype"))
                raise CaseError(
                    f"{self.fn.__name__}: grad is True, and no input can have a gradient{dtypes and f' ({dtypes})'}: "
                    "leave grad out, or write these dtypes as a case of their own"
                )
            return tuple(able)
        found: list[str] = []
        for name in value.split():
            inside = [path for path in able if path.startswith((f"{name}.", f"{name}["))]
            if name not in self.recipes and not inside:
                raise CaseError(
                    f"{self.fn.__name__}: grad names {name!r}, which is no input; the inputs are "
                    f"{', '.join(self.recipes)}"
                )
            found += [name] if name in self.recipes else inside
        return tuple(found)


def _mode(value: Any, where: str) -> str:
    if value not in call_modes.MODES:
        raise CaseError(f"{where}: mode is {value!r}; it must be one of {', '.join(call_modes.MODES)}")
    return value


def resized_arguments(case: Case, change: Callable[[int], int], kept: Collection[int] = ()) -> dict[str, Any] | None:
    """A case's arguments with `change` applied to every size above 1; None if no input has such a size.

    Sizes are what `shape` and `size` declare. Equal sizes stay equal. Sizes of 1 broadcast, so they stay 1, as do the
    sizes in `kept`.
    """

    def changed(size: int) -> int:
        return change(size) if size > 1 and size not in kept else size

    choices = dict(case.choices)
    for path, each in case.inputs.items():
        choice = each.values(case.choices[path])
        if "shape" in choice:
            choices[path] = choice | {"shape": tuple(map(changed, choice["shape"]))}
        elif "size" in choice:
            choices[path] = choice | {"size": changed(choice["size"])}
        if choices[path] == choice:
            choices[path] = case.choices[path]
    if choices == dict(case.choices):
        return None
    return case.assemble(case.make_inputs(_RESIZED_CALL, choices))
