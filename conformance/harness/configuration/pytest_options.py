"""The options of the pytest plugin, and the settings that they make."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Mapping
from typing import Any

import pytest

from conformance import settings
from conformance.harness.configuration.ini_options import add_ini_options, read_project_settings
from conformance.settings import Settings, long_name

#: What a conftest names, and what `-p` takes.
PLUGIN = "conformance.plugin"
#: Options that enable the plugin, named as in OPTIONS.
ENABLING = (
    "device",
    "target",
    "variants",
    "quick",
    "require-device",
    "strict-run",
    "checks",
    "save-run",
    "report",
    "explain",
    "baseline",
    "torch-source",
    "fail-on-drift",
    "verify-deviceless",
    "no-emulation",
    "seed",
    "fresh",
    "audit",
    "targets",
    "store",
    "known-failures",
    "subset",
    "write-known-failures",
    "affected-by",
    "inductor-config",
    "missing",
    "explore",
)
#: Options that leave cases, targets or checks out: those of pytest, and ours, named as in OPTIONS.
_SELECTING = (
    ("keyword", "markexpr"),
    ("device", "target", "quick", "checks", "baseline", "audit", "subset", "affected-by", "missing"),
)

#: Options that say which items a run has, how its processes work and what it leaves. The others make what an item is.
_NOT_OF_AN_ITEM = frozenset(
    ("device", "target", "variants", "quick", "subset", "affected-by", "coverage-map", "missing", "save-run", "report",
     "explore", "explain", "write-known-failures", "strict-run", "require-device", "item-timeout")
)  # fmt: skip
#: Options whose value is a path, relative to the folder of the command.
_PATHS = ("targets", "store", "known-failures", "torch-source")

#: Name → the keywords of `addoption`. `device` is the option `--conformance-device`, and `--device` where nobody else
#: has an option of that name.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "device": dict(metavar="LIST", help="test targets of these: cpu, cuda, rocm (AMD), xpu, or all (default)"),
    "target": dict(metavar="LIST", help="test these targets, such as cuda_sm90,cpu_avx2; with --device, those in both"),
    "variants": dict(
        action="store_true",
        help="also test the targets that are variants of others, such as xpu_dg2 or rocm_gfx942",
    ),
    "quick": dict(action="store_true", help="test one case of each function, on one target of each device type"),
    "strict-run": dict(
        action="store_true",
        help="fail if anything that was selected was not compared: an item, or its numerics",
    ),
    "require-device": dict(action="store_true", help="fail if this machine lacks a selected device"),
    "checks": dict(
        metavar="LIST", help="run these checks: numerics,requirements,code (default), binary, same_bits, work"
    ),
    "save-run": dict(
        metavar="NAME",
        help="keep this run's results under this name, for --baseline and `python -m conformance review`",
    ),
    "report": dict(metavar="FILE", help="write an HTML report of this run; `python -m conformance report` joins runs"),
    "baseline": dict(
        metavar="NAME",
        help="compare code with the run of this name instead of the stored snapshots; or with a PyTorch checkout or "
        "commit, PATH[@COMMIT], whose code is generated first",
    ),
    "explore": dict(
        metavar="MINUTES",
        type=float,
        help="make programs of the selected cases for so long, and run no item; without --device and --target on the "
        "first target. -n says how many programs are checked at a time",
    ),
    "missing": dict(
        metavar="RUN",
        help="test only items that this run lacks: goes on with a run that was killed; `merge` joins both",
    ),
    "torch-source": dict(
        metavar="PATH[@COMMIT]",
        help="test the Python files of this PyTorch checkout, or of a commit of it, with the installed binaries",
    ),
    "backend": dict(
        metavar="NAME",
        default="inductor",
        help="compile with this backend, or module:function; inductor is the default, the others check numerics only",
    ),
    "via": dict(
        metavar="NAME",
        default="compile",
        help=f"run cases via {', '.join(settings.VIA)}; compile is the default, the others check numerics only",
    ),
    "thorough": dict(action="store_true", help="also test combinations of values that cases vary one at a time"),
    "fail-on-drift": dict(
        action="store_true",
        help="if this torch has no snapshots: fail if code differs from the nearest torch's",
    ),
    "no-emulation": dict(action="store_true", help="disable CPU emulation of missing GPUs"),
    "seed": dict(
        metavar="N",
        help="draw other random inputs, special values' places and cotangents; 0 is the default",
    ),
    "fresh": dict(action="store_true", help="also run numerics that passed before, with the same code and machine"),
    "inductor-config": dict(
        metavar="KEY=VALUE[,…]",
        action="append",
        default=[],
        help="compile each case with these options of torch._inductor.config, over its own: check numerics and "
        "requirements, and compare code with no stored code, only with --baseline; may be repeated",
    ),
    "explain": dict(
        action="store_true",
        help="keep in the run what explains the kernels of each item, passed or not: a report shows it. It compiles "
        "each item once more",
    ),
    "audit": dict(
        action="store_true",
        help="check numerics without the opt-outs that cases declare, and fail if an opt-out excuses nothing",
    ),
    "samples": dict(
        metavar="N",
        default="1",
        help="of the sweep: test so many of PyTorch's sample inputs of each operator and dtype, or all; 1 is the "
        "default",
    ),
    "dtypes": dict(
        metavar="LIST",
        help=f"of the sweep: test these dtypes, {','.join(settings.SWEEP_DTYPES)} by default; "
        f"others are {','.join(each for each in settings.SAMPLE_DTYPES if each not in settings.SWEEP_DTYPES)}, or all",
    ),
    "special-values": dict(
        action="store_true",
        help="of the sweep: also call with special values; other cases always have them",
    ),
    "item-timeout": dict(
        metavar="SECONDS",
        type=float,
        help="an item that takes longer fails, and a fresh process runs the next items; "
        f"{settings.ITEM_TIMEOUT:g} is the default, 0 for no limit",
    ),
    "kernels": dict(
        choices=settings.KERNELS,
        default=settings.KERNELS[0],
        help="compile C++ kernels of several items together (batched, the default), or each alone as Inductor does",
    ),
    "captures": dict(
        choices=settings.CAPTURES,
        default=settings.CAPTURES[0],
        help="capture once for all targets of a missing GPU type for which that is the same (shared, the default), or "
        "for each target alone",
    ),
    "targets": dict(
        metavar="FILE",
        action="append",
        default=[],
        help="add the targets of this file, a table such as conformance/devices/targets.toml; may be repeated",
    ),
    "store": dict(
        metavar="DIR",
        help="lay this folder over the stored code: it is read first, and code is accepted into it alone",
    ),
    "known-failures": dict(
        metavar="DIR",
        action="append",
        default=[],
        help="also take the known failures of this folder, for any case and target; may be repeated",
    ),
    "subset": dict(
        metavar="FILE", help="test only the cases that this file names: an id, a node id or a pattern a line"
    ),
    "write-known-failures": dict(
        metavar="DIR",
        help="write what fails into this folder, as known failures of this torch that --known-failures takes",
    ),
    "affected-by": dict(
        metavar="EDIT",
        help="test only the cases that an edit of PyTorch can change: torch/FILE:LINE[,…], a diff, - for stdin, or "
        "CHECKOUT[@RANGE]",
    ),
    "coverage-map": dict(
        metavar="FILE", help="the map for --affected-by, which `python -m conformance coverage make` writes"
    ),
    "verify-deviceless": dict(
        action="store_true",
        help="on a real GPU: also generate the code without it, and fail if the two differ",
    ),
}


_DESCRIPTION = (
    "conformance: test the code and the numerics of torch.compile; --device is short for --conformance-device, and so "
    "on, where no other plugin and no conftest has an option --device"
)
#: Who needs the options → their names, as in OPTIONS.
_GROUPS = {
    "": ("device", "target", "variants", "quick", "checks", "save-run", "report", "baseline", "missing", "explore",
         "subset", "targets", "store", "known-failures", "item-timeout"),
    "for compiler engineers": ("torch-source", "affected-by", "coverage-map", "backend", "via", "inductor-config",
                               "explain", "thorough", "seed", "no-emulation", "samples", "dtypes", "special-values"),
    "for maintainers and CI": ("require-device", "strict-run", "fail-on-drift", "verify-deviceless", "fresh", "audit",
                               "write-known-failures", "kernels", "captures"),
}  # fmt: skip


def add_options(parser: pytest.Parser, *, with_short_names: bool) -> None:
    """Declares the options and the ini options of the plugin.

    `with_short_names`: also declares those that nobody has yet. See short_names.py for how it is without.
    """
    add_ini_options(parser)
    refused = set()
    for who, names in _GROUPS.items():
        title = ": ".join(["conformance", *([who] if who else [])])
        group = parser.getgroup(title, title if who else _DESCRIPTION)
        for name in names:
            group.addoption(long_name(name), **OPTIONS[name])
            if with_short_names:
                try:
                    group.addoption(f"--{name}", **{**OPTIONS[name], "dest": dest(name), "help": argparse.SUPPRESS})
                except (ValueError, argparse.ArgumentError):
                    refused.add(name)
    if with_short_names:
        settings.set_names_of_others(refused)


def dest(name: str) -> str:
    """The attribute of pytest's options. `name`: as in OPTIONS."""
    return f"conformance_{name.replace('-', '_')}"


def option(config: pytest.Config, name: str) -> Any:
    """The value of an option of ours. `name`: as in OPTIONS."""
    return getattr(config.option, dest(name))


def selects(config: pytest.Config) -> bool:
    """Whether an option leaves cases, targets or checks out. Then no snapshot is reported as unused."""
    of_pytest, ours = _SELECTING
    return any(config.getoption(name, None) for name in of_pytest) or any(option(config, name) for name in ours)


def read_settings(config: pytest.Config, accept: str | None = None) -> Settings:
    """The settings of a run. `accept`: what the process that started this worker accepts; None to read the variable.

    Raises SettingsError for a wrong value.
    """
    value = functools.partial(option, config)
    project = read_project_settings(config)
    accepts = settings.parse_accept(os.environ) if accept is None else accept
    read = Settings(
        devices=value("device"),
        targets=value("target"),
        variants=value("variants"),
        quick=value("quick"),
        require_device=value("require-device"),
        strict_run=value("strict-run"),
        checks=(value("checks") is None and project.checks) or settings.parse_checks(value("checks")),
        accept=accepts,
        save_run=value("save-run"),
        baseline=value("baseline"),
        missing=value("missing"),
        torch_source=value("torch-source"),
        backend=value("backend"),
        via=settings.parse_via(value("via"), value("backend")),
        thorough=value("thorough"),
        fail_on_drift=value("fail-on-drift") or (project.drift == "fail" and not value("audit")),
        verify_deviceless=value("verify-deviceless"),
        emulation=not value("no-emulation"),
        seed=settings.parse_seed(value("seed") or "0"),
        fresh=value("fresh"),
        item_timeout=item_timeout(config),
        kernels=value("kernels"),
        captures=value("captures"),
        audit=value("audit"),
        explain=value("explain"),
        samples=settings.parse_samples(value("samples")),
        dtypes=settings.parse_dtypes(value("dtypes")),
        special_values=value("special-values"),
        default_targets=project.targets,
        strict_torch=project.strict_torch,
        factor=project.factor,
        inductor_config=settings.parse_inductor_config(value("inductor-config")),
        overlay=_overlay(config, creates=bool(accepts)),
        subset=_path(config, value("subset")),
        write_known_failures=_path(config, value("write-known-failures")),
        affected_by=value("affected-by"),
        coverage_map=_path(config, value("coverage-map")),
    )
    settings.refuse_accepting_source(read)
    if read.inductor_config:
        settings.refuse_beside_inductor_config(read)
    if read.write_known_failures:
        settings.refuse_beside_written_failures(read)
    return settings.for_audit(read, names_checks=value("checks") is not None) if read.audit else read


def options_of_items(config: pytest.Config) -> dict[str, Any]:
    """Name, as in OPTIONS → value, of the given options that make what an item is and what it is compared with."""
    given = {}
    for name, keywords in OPTIONS.items():
        value = option(config, name)
        if name in _NOT_OF_AN_ITEM or value in (None, False, [], keywords.get("default")):
            continue
        given[name] = value
        if name in _PATHS:
            is_one, folder = isinstance(value, str), config.invocation_params.dir
            given[name] = str(folder / value) if is_one else [str(folder / each) for each in value]
    return given


def item_timeout(config: pytest.Config) -> float:
    """Seconds for one item, 0 for no limit. Raises SettingsError for a wrong value."""
    given, project = option(config, "item-timeout"), read_project_settings(config).item_timeout
    if given is None:
        return settings.ITEM_TIMEOUT if project is None else project
    return settings.parse_item_timeout(given)


def _overlay(config: pytest.Config, *, creates: bool) -> settings.Overlay:
    """The overlay of a run. The folder of --write-known-failures is a part of it, because entries are added there.

    `creates`: the run accepts code, which creates the store.
    """
    value = functools.partial(option, config)
    names = (settings.INI_TARGET_TABLES, settings.INI_STORE, settings.INI_KNOWN_FAILURES)
    tables, stores, layers = (list(map(str, config.getini(name) or ())) for name in names)
    overlay = settings.parse_overlay(
        [*tables, *value("targets")],
        value("store") or next(iter(stores), None),
        [*layers, *value("known-failures")],
        config.invocation_params.dir,
        creates=creates,
    )
    written = _path(config, value("write-known-failures"))
    return overlay.with_known_failures(written) if written else overlay


def _path(config: pytest.Config, text: str | None) -> str | None:
    """An absolute path, of one that is relative to the folder of the command."""
    return str(config.invocation_params.dir / text) if text else None


def is_named_by_option(namespace: argparse.Namespace) -> bool:
    """Whether the command line enables the plugin. `namespace`: parsed options.

    Do so: one of ENABLING, -p with the plugin, and --pyargs with cases that are installed.
    """
    by_ours = any(getattr(namespace, dest(name), None) for name in ENABLING)
    names = getattr(namespace, "file_or_dir", None) or () if getattr(namespace, "pyargs", False) else ()
    by_name = any(name.startswith("conformance.") for name in names)
    return by_ours or by_name or PLUGIN in (getattr(namespace, "plugins", None) or ())


def is_enabled(config: pytest.Config) -> bool:
    """Whether the user enabled the plugin: with an option, with -p, or with a conftest that names the plugin.

    pytest loads an installed plugin into every run, also of projects that have no case: they must not be slower.
    """
    if is_named_by_option(config.option):
        return True
    named_by = (getattr(plugin, "pytest_plugins", ()) for plugin in config.pluginmanager.get_plugins())
    return any(PLUGIN in names for names in named_by)
