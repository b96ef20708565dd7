"""The process that observes a case with some functions exchanged: `python -m conformance.bisection.exchange_process`.

It imports torch and captures each case once, then forks for each request: so a request takes a second, and none sees
what another exchanged.
"""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.bisection.differences import Difference
from conformance.bisection.exchange import Exchange, config_modules, function_index
from conformance.bisection.missing_modules import MissingModules, PythonFiles
from conformance.bisection.missing_names import MissingNames
from conformance.bisection.observation import Observation
from conformance.bisection.observing_process import UNOBSERVED, observation, unobserved
from conformance.capture.forked_call import ForkedCallError, call_in_fork, use_one_thread
from conformance.capture.json_worker import claim_stdout, serve
from conformance.cases.adhoc import AdhocOptions
from conformance.compiler.case_request import capture
from conformance.compiler.compiler import Compiler, compiler_for
from conformance.devices.environment import torch_build
from conformance.devices.targets import use_tables
from conformance.errors import ConformanceError, first_line
from conformance.sources.source_fit import import_problem

#: Seconds for one case with exchanged functions: some make a compile that never ends.
LIMIT = 120


class _Server:
    def __init__(self) -> None:
        self._compilers: list[Compiler] = []
        self._exchange = Exchange({}, {})
        self._captured: set[str] = set()
        self._about: Mapping[str, Any] = {}
        self._missing, self._names = MissingModules(Path()), MissingNames(Path(), Path())

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The first request sets up: `options`, `target`, `tables`, `numerics`, `work`, and `packages`, the folder of
        the new torch, and `members`, see Exchange; answers with `misfit`.

        Later ones: `case`, `chosen`, the differences to exchange; answers with an observation.
        """
        if "case" not in request:
            packages = Path(request["packages"])
            self._about, self._exchange = (
                request,
                Exchange(PythonFiles(packages), {}, [tuple(each) for each in request["members"]]),
            )
            use_tables(request["tables"])
            self._missing = MissingModules(packages)
            self._missing.install()
            self._names = MissingNames(torch_build().folder.parent, packages)
            self._compilers.append(compiler_for(request["target"]))
            misfit = import_problem()
            if not misfit:
                self._compilers[0].set_up_torch()  # sets the number of threads
                use_one_thread()
            return {"misfit": misfit}
        case = request["case"]
        if case not in self._captured:  # so that every child finds all modules imported and all caches filled
            self._captured.add(case)
            self._observe(case, gradients=False)  # PyTorch refuses autograd in a child of a process that used it
            self._exchange.functions = function_index()
        chosen = [Difference.from_json(each) for each in request["chosen"]]
        self._exchange.prepare(chosen, config_modules())
        gc.freeze()  # a child that looks at each object of its parent copies all memory
        try:
            answer = call_in_fork(
                lambda: {"observed": self._exchanged(case, chosen).to_json(), "parsed": self._exchange.parsed}, LIMIT
            )
            self._exchange.parse(answer["parsed"])  # the next child will need them too
            return answer["observed"]
        except ForkedCallError as error:
            return Observation(misfit=str(error)).to_json()

    def _observe(self, case: str, *, gradients: bool = True) -> Observation:
        try:
            return self._observation(case, gradients=gradients)
        except UNOBSERVED as error:
            return unobserved(error)

    def _observation(self, case: str, *, gradients: bool) -> Observation:
        (compiler,), about = self._compilers, self._about
        target, options = compiler.target(about["target"]), AdhocOptions.from_json(about["options"])
        captures = capture if about["work"] else None  # a process of its own would not have the exchanged functions
        return observation(
            compiler, case, options, target, numerics=about["numerics"], gradients=gradients, captures=captures
        )

    def _exchanged(self, case: str, chosen: list[Difference]) -> Observation:
        self._missing.is_open = True  # in the child alone
        self._names.install(sys.modules["torch"], sys.modules["torch._C"])
        self._exchange.open_modules()
        try:
            self._exchange.add_options(config_modules())
            self._exchange.apply(chosen)
            return self._noted(self._observation(case, gradients=True))
        except Exception as error:  # noqa: BLE001 - whatever a text of another torch raises is the answer
            if isinstance(error, UNOBSERVED):
                observed = unobserved(error)
            else:
                text = (
                    str(error)
                    if isinstance(error, ConformanceError)
                    else f"{type(error).__name__}: {first_line(error)}"
                )
                observed = Observation(misfit=text)
            culprit = self._exchange.culprit(error, chosen)
            return self._noted(dataclasses.replace(observed, culprit=culprit.title if culprit else ""))

    def _noted(self, observed: Observation) -> Observation:
        return dataclasses.replace(observed, placeholders=self._names.used)


if __name__ == "__main__":
    answers = claim_stdout()
    serve(answers, _Server().answer)
    sys.exit(0)
