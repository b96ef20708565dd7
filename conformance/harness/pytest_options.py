"""The options of the pytest plugin, and the settings that they make."""

from __future__ import annotations

import os

import pytest

from conformance import settings
from conformance.settings import Settings

#: What a conftest names, and what `-p` takes.
PLUGIN = "conformance.plugin"
#: Options that enable the plugin.
ENABLING = (
    "device",
    "target",
    "variants",
    "quick",
    "require_device",
    "strict_run",
    "checks",
    "save_run",
    "baseline",
    "fail_on_drift",
    "verify_deviceless",
    "no_emulation",
    "seed",
    "fresh",
    "audit",
)
#: Options that leave cases, targets or checks out. With one of them, no snapshot is reported as unused.
SELECTING = ("keyword", "markexpr", "device", "target", "quick", "checks", "baseline", "audit")


def add_options(parser: pytest.Parser) -> None:
    """Declares the options of the plugin."""
    group = parser.getgroup("conformance", "conformance: test the code and the numerics of torch.compile")
    add = group.addoption
    add("--device", metavar="LIST", help="test targets of these device types: cpu, cuda, xpu, or all (default)")
    add("--target", metavar="LIST", help="test these targets, such as cuda_sm90,cpu_avx2; with --device, those in both")
    add(
        "--variants",
        action="store_true",
        help="also test the targets that are variants of others, such as xpu_dg2",
    )
    add("--quick", action="store_true", help="test one case of each function, on one target of each device type")
    add(
        "--strict-run",
        action="store_true",
        help="fail if anything that was selected was not compared: an item, or its numerics",
    )
    add("--require-device", action="store_true", help="fail if this machine lacks a selected device")
    add("--checks", metavar="LIST", help="run these checks: numerics,requirements,code (default) and binary")
    add(
        "--save-run",
        metavar="NAME",
        help="keep this run's results under this name, for --baseline and `python -m conformance review`",
    )
    add("--baseline", metavar="NAME", help="compare code with the run of this name instead of the stored snapshots")
    add(
        "--backend",
        metavar="NAME",
        default="inductor",
        help="compile with this backend, or module:function; inductor is the default, the others check numerics only",
    )
    add(
        "--via",
        metavar="NAME",
        default="compile",
        help=f"run cases via {', '.join(settings.VIA)}; compile is the default, the others check numerics only",
    )
    add("--thorough", action="store_true", help="also test combinations of values that cases vary one at a time")
    add(
        "--fail-on-drift",
        action="store_true",
        help="if this torch has no snapshots: fail if code differs from the nearest torch's",
    )
    add("--no-emulation", action="store_true", help="disable CPU emulation of missing GPUs")
    add(
        "--seed",
        metavar="N",
        help="draw other random inputs, special values' places and cotangents; 0 is the default",
    )
    add("--fresh", action="store_true", help="also run numerics that passed before, with the same code and machine")
    add(
        "--audit",
        action="store_true",
        help="check numerics without the opt-outs that cases declare, and fail if an opt-out excuses nothing",
    )
    add(
        "--item-timeout",
        metavar="SECONDS",
        type=float,
        default=settings.ITEM_TIMEOUT,
        help="an item that takes longer fails, and a fresh process runs the next items; "
        f"{settings.ITEM_TIMEOUT:g} is the default, 0 for no limit",
    )
    add(
        "--kernels",
        choices=settings.KERNELS,
        default=settings.KERNELS[0],
        help="compile C++ kernels of several items together (batched, the default), or each alone as Inductor does",
    )
    add(
        "--captures",
        choices=settings.CAPTURES,
        default=settings.CAPTURES[0],
        help="capture once for all targets of a missing GPU type for which that is the same (shared, the default), or "
        "for each target alone",
    )
    add(
        "--verify-deviceless",
        action="store_true",
        help="on a real GPU: also generate the code without it, and fail if the two differ",
    )


def read_settings(config: pytest.Config, accept: str | None = None) -> Settings:
    """The settings of a run. `accept`: what the process that started this worker accepts; None to read the variable.

    Raises SettingsError for a wrong value.
    """
    option = config.getoption
    read = Settings(
        devices=option("device"),
        targets=option("target"),
        variants=option("variants"),
        quick=option("quick"),
        require_device=option("require_device"),
        strict_run=option("strict_run"),
        checks=settings.parse_checks(option("checks")),
        accept=settings.parse_accept(os.environ) if accept is None else accept,
        save_run=option("save_run"),
        baseline=option("baseline"),
        backend=option("backend"),
        via=settings.parse_via(option("via"), option("backend")),
        thorough=option("thorough"),
        fail_on_drift=option("fail_on_drift"),
        verify_deviceless=option("verify_deviceless"),
        emulation=not option("no_emulation"),
        seed=settings.parse_seed(option("seed") or "0"),
        fresh=option("fresh"),
        item_timeout=settings.parse_item_timeout(option("item_timeout")),
        kernels=option("kernels"),
        captures=option("captures"),
        audit=option("audit"),
    )
    return settings.for_audit(read, names_checks=option("checks") is not None) if read.audit else read


def is_enabled(config: pytest.Config) -> bool:
    """Whether the user enabled the plugin: with an option, with -p, or with a conftest that names the plugin.

    pytest loads an installed plugin into every run, also of projects that have no case: they must not be slower.
    """
    options = getattr(config, "option", None)
    if any(getattr(options, name, None) for name in ENABLING) or PLUGIN in (getattr(options, "plugins", None) or ()):
        return True
    named_by = (getattr(plugin, "pytest_plugins", ()) for plugin in config.pluginmanager.get_plugins())
    return any(PLUGIN in names for names in named_by)
