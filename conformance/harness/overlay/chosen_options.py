"""--inductor-config: options of Inductor, chosen for a run, that are laid over those of each case.

Nothing that such a run generates is stored or compared with stored code. Known failures of cases apply, and need not
occur.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.cases.case import Case
from conformance.settings import Settings, SettingsError, config_text, option_name
from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord
from conformance.words import pluralise

#: The detail of a passed check for which a known failure stands that did not occur.
NOT_OCCURRED = "the known failure does not occur with "
#: How many items a line names.
_NAMED = 3


def refuse_wrong(settings: Settings) -> None:
    """Raises SettingsError for an option that torch lacks, and for a value of the wrong type. Imports torch."""
    if not settings.inductor_config:
        return
    from conformance.capture.compiler_options import problem_of

    for name, value in settings.inductor_config.items():
        if problem := problem_of(name, value):
            raise SettingsError(f"{option_name('inductor-config')} {config_text({name: value})}: {problem}")


def laid_over(cases: Sequence[Case], settings: Settings) -> list[Case]:
    """The cases with the options of the run. The items of a case on all targets share one object."""
    return [case.with_config(settings.inductor_config) for case in cases]


def reason_not_compared(settings: Settings) -> str:
    """Why code is not compared with stored code; "" where it is. Code of a baseline run is compared."""
    return f"not compared: {settings.typed_inductor_config}" if settings.inductor_config else ""


def summary_lines(items: Sequence[ItemRecord], settings: Settings) -> list[str]:
    """How many items' code was not compared with stored code, and which known failures did not occur."""
    if not settings.inductor_config:
        return []
    chosen = settings.typed_inductor_config
    skipped = [item for item in items if item.text and item.outcome("code") is Outcome.SKIPPED]
    lines = [f"code of {pluralise(len(skipped), 'item')} was not compared: {chosen}"] if skipped else []
    mended = [item.name for item in items for result in item.checks.values() if result.detail.startswith(NOT_OCCURRED)]
    if mended:
        more = f" and {len(mended) - _NAMED} more" if len(mended) > _NAMED else ""
        count = pluralise(len(mended), "known failure")
        lines.append(f"{count} did not occur with {chosen}: {', '.join(mended[:_NAMED])}{more}")
    return lines
