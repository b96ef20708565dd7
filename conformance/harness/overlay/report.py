"""Says where targets, texts and known failures came from, for the header and the end of a run, and for commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from conformance.cases.roots import OPS, STORAGE_ROOTS
from conformance.devices.targets import targets
from conformance.expectations.known_failures import load
from conformance.settings import Overlay
from conformance.storage.check_results import Outcome
from conformance.storage.installed import installed_package
from conformance.storage.locations import EXPECTED_CODE, EXPECTED_DIGESTS, KNOWN_FAILURES, overlay_root
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Store
from conformance.words import pluralise


def header_lines(overlay: Overlay) -> list[str]:
    """A line for pytest's header that names the overlay, and which parts of it are empty; none without one."""
    options = overlay.options()
    pairs = list(zip(options[::2], options[1::2], strict=True))
    empty = {overlay.store: f"no {EXPECTED_CODE}/ in it"} if overlay.store and not _has_code(overlay.store) else {}
    empty |= {folder: "no *.toml in it" for folder in overlay.known_failures if not any(Path(folder).glob("*.toml"))}
    texts = [f"{option} {path}{f' ({empty[path]})' if path in empty else ''}" for option, path in pairs]
    return [f"laid over: {', '.join(texts)}"] if texts else []


def _has_code(store: str) -> bool:
    return any(overlay_root(store, name).is_dir() for name in (EXPECTED_CODE, EXPECTED_DIGESTS))


def layer_lines(overlay: Overlay) -> list[str]:
    """What each layer has, for `list` and `doctor`: a line for each of targets, code and known failures with layers."""
    lines = []
    if overlay.targets:
        tables = Counter(target.table for target in targets().values())
        names = {table: ", ".join(each.name for each in targets().values() if each.table == table) for table in tables}
        further = [f"{names[table]} in {table}" for table in overlay.targets if table in tables]
        lines.append(f"targets: {tables['']} in conformance, {', '.join(further) or 'none in the further tables'}")
    if overlay.store:
        texts = [_texts(Store(root)) for root in (OPS.parent / EXPECTED_CODE, overlay_root(overlay.store))]
        lines.append(f"code: {texts[0]:,} texts in conformance, {texts[1]:,} in {overlay.store}")
    if overlay.known_failures:
        own = sum(len(load(root / KNOWN_FAILURES).failures) for root in STORAGE_ROOTS)
        over = Counter(each.layer for each in load(None, overlays=overlay.known_failures).failures)
        counts = [f"{over[layer]:,} in {layer}" for layer in overlay.known_failures]
        lines.append(f"known failures: {own:,} entries in conformance, {', '.join(counts)}")
    return lines


def _texts(store: Store) -> int:
    """How many texts a store has, one for each case, torch version and target."""
    snapshots = (store.read(case) for case in store.cases())
    return sum(len(snapshot.texts) for snapshot in snapshots if snapshot)


def summary_lines(items: Sequence[ItemRecord], overlay: Overlay) -> list[str]:
    """Where the targets, the texts and the known failures of a run's items came from; none without an overlay."""
    lines = []
    if overlay.targets:
        found = Counter((item.target, item.layers["target"]) for item in items if "target" in item.layers)
        own = sum("target" not in item.layers for item in items)
        counts = [f"{pluralise(count, 'item')} for {target} in {table}" for (target, table), count in found.items()]
        used = {table for _, table in found}
        counts += [f"0 items for targets in {table}" for table in overlay.targets if table not in used]
        lines.append(f"targets: {', '.join([f'{own:,} items for targets of conformance', *counts])}")
    if overlay.store:
        stored = [item for item in items if item.outcome("code") is Outcome.PASSED and "code" in item.layers]
        places = Counter(item.layers["code"] for item in stored)
        over = places.pop(overlay.store, 0)
        counts = [f"{count:,} as stored in {_place(place)}" for place, count in places.items()]
        lines.append(f"code: {', '.join([*counts, f'{over:,} as stored in {overlay.store}'])}")
    if overlay.known_failures:
        own_layers = {Path(folder).resolve(): folder for folder in overlay.known_failures}
        known = [
            item.layers.get(check) or own_layers.get(Path(item.known).resolve()) or _place(item.known)
            for item in items
            for check, result in item.checks.items()
            if result.outcome is Outcome.KNOWN
        ]
        places = Counter(dict.fromkeys(overlay.known_failures, 0) | Counter(known))
        counts = [f"{count:,} by entries in {place}" for place, count in places.items()]
        lines.append(f"failures excused: {', '.join(counts)}")
    return lines


def _place(folder: str) -> str:
    """How messages name the place of cases: the name of the installed package, or the folder."""
    place = Path(folder).parent
    if place.resolve() == OPS.parent.resolve():
        return "conformance"
    return installed_package(place / "x") or str(place)
