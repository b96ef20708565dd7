"""--missing: a run that goes on with another one, which was killed."""

from __future__ import annotations

from conformance.harness.session import Session
from conformance.settings import config_text, option_name
from conformance.storage.runs import Run, RunError


def refuse_other_run(session: Session, run: Run) -> None:
    """Raises RunError where --missing would go on with a run of another torch or of other options, or with itself."""
    option, description = option_name("missing"), run.description()
    if run.folder.resolve() == session.run.folder.resolve():
        raise RunError(
            f"{option} and {option_name('save-run')} are both {session.settings.missing!r}: give "
            f"{option_name('save-run')} another name, and join both with `python -m conformance merge`"
        )
    if description["torch"] != session.torch:
        raise RunError(f"{option}: the run is of torch {description['torch']}, and this is torch {session.torch}")
    if config_text(description.get("inductor_config", {})) != config_text(session.settings.inductor_config):
        raise RunError(f"{option}: the run had other values of {option_name('inductor-config')}: give it the same")
