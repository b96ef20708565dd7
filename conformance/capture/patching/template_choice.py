"""With max_autotune, Inductor times its choices for a product. Here it takes the first template, without timing.

So the code depends on no timing, and a GPU that is not here has code too. An option of the case names another choice:
`test_configs.autotune_choice_name_regex`, a regular expression for the names of choices, such as `triton_mm_3`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch


def _selecting_first_template(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps AlgorithmSelectorCache.__call__. Without max_autotune it has one choice as a rule, and is left alone."""

    @functools.wraps(original)
    def select(cache: Any, name: str, choices: list[Any], *args: Any, **kwargs: Any) -> Any:
        from torch._inductor import config
        from torch._inductor.select_algorithm import ExternKernelCaller

        if (config.max_autotune or config.max_autotune_gemm) and not config.deterministic:
            for choose in cache.preprocessing_fns:  # the case's regular expressions are among them
                choices = choose(choices)
            templates = [choice for choice in choices if not isinstance(choice, ExternKernelCaller)]
            choices = (templates or choices)[:1]
        return original(cache, name, choices, *args, **kwargs)

    return select


PATCH = Patch(
    "torch._inductor.select_algorithm:AlgorithmSelectorCache.__call__",
    _selecting_first_template,
    "it times the choices of max_autotune on the device; now it takes the first template",
)
