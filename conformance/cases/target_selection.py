"""The targets that the options --device and --target select."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from conformance.devices.targets import Target, TargetError, families
from conformance.settings import option_name


def select_targets(
    known: Iterable[Target],
    devices: str | None,
    names: str | None,
    with_variants: bool | Callable[[Target], bool] = False,
    ini_option: str = "",
) -> list[Target]:
    """The targets that --device and --target select, in table order. Both are comma-separated lists.

    With both, a target must be in both. "cuda" does not select rocm; "rocm" selects its targets although they are
    variants. `with_variants`: whether a variant that `names` does not name is selected too,
    for all or for each. `ini_option`: the ini option that gives `names`; "" if --target does. Raises TargetError for an
    unknown name and for an empty selection.
    """
    known = list(known)
    wanted_devices = _names(devices, [*families(), "all"], "device")
    wanted_targets = _names(names, [target.name for target in known], "target", ini_option)
    is_wanted = with_variants if callable(with_variants) else lambda _target: with_variants

    def runs_unnamed(target: Target) -> bool:
        return not target.variant_of or target.platform in wanted_devices or is_wanted(target)

    selected = [
        target
        for target in known
        if (not wanted_devices or "all" in wanted_devices or target.family in wanted_devices)
        and (target.name in wanted_targets if wanted_targets else runs_unnamed(target))
    ]
    if not selected:
        both = f"{option_name('device')} {devices} and {ini_option or option_name('target')} {names}"
        others = f"; name others with {option_name('target')}" if ini_option else ""
        raise TargetError(f"{both} have no target in common{others}")
    return selected


def _names(text: str | None, known: list[str], kind: str, ini_option: str = "") -> list[str]:
    if text is None:
        return []
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise TargetError(f"{option_name(kind)} names nothing; known are {', '.join(known)}")
    for name in names:
        if name not in known:
            where = f" in {ini_option}" if ini_option else ""
            raise TargetError(f"unknown {kind} {name!r}{where}; known are {', '.join(known)}")
    return names
