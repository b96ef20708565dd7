"""The settings of a run: pytest's options and the variable EXPECTTEST_ACCEPT, checked."""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from conformance.errors import ConformanceError


class Check(NamedTuple):
    """A check of an item. `runs`: "default", or "named" if --checks has to name it because it takes longer; "" where
    the item decides. `excused`: by a known failure, and `written` by --write-known-failures. `confirmed`: whether it
    says something of the device, for `confirm`.
    """

    name: str
    runs: str = ""
    excused: bool = True
    written: bool = False
    confirmed: bool = False


#: All checks, in the order in which they are made. "compile" fails if compiling raises; then no other one runs.
#: "deviceless": of --verify-deviceless. "device": whether the device still works after the item.
ALL_CHECKS = (
    Check("compile", written=True, confirmed=True),
    Check("numerics", "default", written=True, confirmed=True),
    Check("requirements", "default", written=True, confirmed=True),
    Check("code", "default"),
    Check("binary", "named"),
    Check("same_bits", "named"),
    Check("work", "named", excused=False),
    Check("deviceless", written=True),
    Check("device", excused=False, confirmed=True),
)
#: The checks that run by default, and those that --checks has to name.
CHECKS = tuple(each.name for each in ALL_CHECKS if each.runs == "default")
OPTIONAL_CHECKS = tuple(each.name for each in ALL_CHECKS if each.runs == "named")
#: Each folder has a known bug that any case may meet: --known-failures takes its name.
KNOWN_CAUSES = Path(__file__).parent / "known_causes"
#: Seconds for one item. A request to the GPU-free worker has a limit of its own, 600 s, which should come first.
ITEM_TIMEOUT = 900.0
#: The values of --via: torch.compile, torch.jit.trace, torch.jit.script, torch.export.
VIA = ("compile", "jit_trace", "jit_script", "export")
#: The values of --kernels: those of several items together, or each alone, as Inductor compiles them.
KERNELS = ("batched", "alone")
#: The values of --captures: one for all targets of a device type for which it is the same, or one for each target.
CAPTURES = ("shared", "alone")
#: The dtypes of --dtypes, and those of a sweep that names none: a floating one, one of 16 bits, an integer one.
SAMPLE_DTYPES = ("f32", "bf16", "f16", "f64", "i64", "i32", "i16", "i8", "u8", "bool", "c64")
SWEEP_DTYPES = ("f32", "bf16", "i64")
ACCEPT = "EXPECTTEST_ACCEPT"


class SettingsError(ConformanceError, ValueError):
    """A wrong option or variable; the message says which values are right."""


#: The ini options of an overlay.
INI_TARGET_TABLES, INI_STORE, INI_KNOWN_FAILURES = (
    "conformance_target_tables",
    "conformance_store",
    "conformance_known_failures",
)


@dataclass(frozen=True)
class Overlay:
    """What is laid over the targets, snapshots and known failures of the cases' own place. All paths are absolute.

    `targets`: files with further targets. `store`: a folder with expected_code/ and expected_binary/; "" for none.
    `known_failures`: folders with *.toml files.
    """

    targets: tuple[str, ...] = ()
    store: str = ""
    known_failures: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Overlay:
        return cls(tuple(data["targets"]), data["store"], tuple(data["known_failures"]))

    def with_known_failures(self, folder: str) -> Overlay:
        """This overlay, with a further folder if it has not that folder already."""
        return replace(self, known_failures=tuple(dict.fromkeys((*self.known_failures, folder))))

    def options(self, name: Callable[[str], str] | None = None) -> list[str]:
        """The options that give this overlay to pytest. `name`: option_name, which is the default, or long_name."""
        name = name or option_name
        return [
            *(word for file in self.targets for word in (name("targets"), file)),
            *((name("store"), self.store) if self.store else ()),
            *(word for folder in self.known_failures for word in (name("known-failures"), folder)),
        ]


def refuse_accepting_source(settings: Settings) -> None:
    """Raises SettingsError where code of a source would be stored as that of a release: only --store may get it."""
    if settings.torch_source and settings.accept and not settings.overlay.store:
        raise SettingsError(
            f"{ACCEPT} would store the code of {option_name('torch-source')} {settings.torch_source} as that of the "
            f"installed torch: give it a folder of its own with {option_name('store')} DIR"
        )


def refuse_beside_written_failures(settings: Settings) -> None:
    """Raises SettingsError for options with which failures are not those of a plain run."""
    wrong = {option_name("audit"): settings.audit, f"{option_name('seed')} {settings.seed}": bool(settings.seed)}
    if options := [option for option, is_given in wrong.items() if is_given]:
        raise SettingsError(
            f"{option_name('write-known-failures')} writes what fails in every run, and {options[0]} makes other "
            "failures: leave one of them out"
        )


def _absolute(paths: Sequence[str], folder: Path) -> list[str]:
    """The paths, each once, whatever its spelling."""
    return list(dict.fromkeys(os.path.normpath(folder / path) for path in paths))


def parse_overlay(
    targets: Sequence[str], store: str | None, known_failures: Sequence[str], folder: Path, *, creates: bool = False
) -> Overlay:
    """The overlay of these paths, which are relative to `folder`.

    `creates`: this run or command may create the store. Raises SettingsError for a path that does not exist.
    """
    tables, layers = (_absolute(paths, folder) for paths in (targets, known_failures))
    for file in tables:
        if not Path(file).is_file():
            raise SettingsError(
                f"{option_name('targets')}: there is no file {file}; name a table with rows as in targets.toml"
            )
    for layer in layers:
        if not Path(layer).is_dir() and not (KNOWN_CAUSES / Path(layer).name).is_dir():
            causes = ", ".join(sorted(each.name for each in KNOWN_CAUSES.iterdir()))
            raise SettingsError(
                f"{option_name('known-failures')}: there is no folder {layer}; name a folder with *.toml files, or one "
                f"of the causes that this package knows: {causes}"
            )
    layers = [layer if Path(layer).is_dir() else str(KNOWN_CAUSES / Path(layer).name) for layer in layers]
    place = folder / store if store else None
    if place and not place.is_dir() and (place.exists() or not creates):
        raise SettingsError(
            f"{option_name('store')}: there is no folder {place}; name a folder that holds expected_code/, "
            f"or create it: mkdir {place}"
        )
    return Overlay(tuple(tables), str(place) if place else "", tuple(layers))


@dataclass(frozen=True)
class Settings:
    """The options of one run.

    `devices`, `targets`: what --device and --target name, as text; see target_selection.py. `variants`: targets that
    are variants of others run too.
    `accept`: which snapshots are accepted: "" (none), "all" or "new" (those not stored yet).
    `save_run`, `baseline`: names of runs. `missing`: the name of a run; only items that did not end in it run.
    `torch_source`: PATH[@COMMIT] of the Python files that are imported as torch;
    None for the installed torch.
    `backend`: a backend of torch.compile, or `module:function`. `via`: one of VIA.
    `quick`: one case of each function, on one target of each device type unless `targets` names some.
    `strict_run`: a run that compared less than it was asked to fails. `thorough`: run combinations of axes too.
    `emulation`: run the code for missing GPUs on the CPU. `item_timeout`: seconds for one item; 0 for no limit.
    `kernels`: how C++ kernels are compiled, one of KERNELS.
    `captures`: whether targets share captures that are the same for them, one of CAPTURES.
    `seed`: of all that is drawn at random, see cases/seeds.py.
    `fresh`: also run numerics that passed before. `audit`: judge the opt-outs of cases instead of running all checks.
    `explain`: keep what explains each item's kernels.
    `default_targets`: what the ini file names; `targets` replaces it. `strict_torch`: the release on which a known
    failure of the project that excuses nothing is an error; "" for all that it names. `factor`: the numerics factor of
    cases that name none; None for the policy's.
    `inductor_config`: options of Inductor that replace those of the cases, named as in a case's `config`.
    `samples`, `dtypes`, `special_values`: of the sweep, see cases/sample_selection.py.
    `overlay`: further targets, snapshots and known failures. `subset`: a file that names the cases to run, see
    cases/subset.py. `write_known_failures`: the folder into which failures are written as known failures.
    `affected_by`: places in torch, or the text of a diff: only cases that it can change run. `coverage_map`: the file
    of the map that says so; None for that of the project or of this package.
    """

    devices: str | None = None
    targets: str | None = None
    variants: bool = False
    quick: bool = False
    require_device: bool = False
    strict_run: bool = False
    checks: tuple[str, ...] = CHECKS
    accept: str = ""
    save_run: str | None = None
    baseline: str | None = None
    missing: str | None = None
    torch_source: str | None = None
    backend: str = "inductor"
    via: str = "compile"
    thorough: bool = False
    fail_on_drift: bool = False
    verify_deviceless: bool = False
    emulation: bool = True
    seed: int = 0
    fresh: bool = False
    item_timeout: float = ITEM_TIMEOUT
    kernels: str = KERNELS[0]
    captures: str = CAPTURES[0]
    audit: bool = False
    explain: bool = False
    default_targets: str | None = None
    strict_torch: str = ""
    factor: float | None = None
    inductor_config: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    dtypes: tuple[str, ...] = SWEEP_DTYPES
    special_values: bool = False
    overlay: Overlay = field(default_factory=Overlay)
    subset: str | None = None
    write_known_failures: str | None = None
    affected_by: str | None = None
    coverage_map: str | None = None

    @property
    def backend_option(self) -> str:
        """What replaces Inductor: `--via export` or `--backend aot_eager`, also in known failures; "" if nothing does.

        Such a run captures no code: it checks numerics only.
        """
        if self.via != "compile":
            return f"--via {self.via}"
        return f"--backend {self.backend}" if self.backend != "inductor" else ""

    @property
    def typed_backend_option(self) -> str:
        """As `backend_option`, with the option's name for messages."""
        name, _, value = self.backend_option.removeprefix("--").partition(" ")
        return f"{option_name(name)} {value}" if name else ""

    @property
    def typed_inductor_config(self) -> str:
        """`--inductor-config max_autotune=True,cpp.threads=1`, as the user can type it; "" without such options."""
        return typed_inductor_config(self.inductor_config)

    @property
    def inductor_config_options(self) -> tuple[str, ...]:
        """Each of these options by itself, as known failures name it: `--inductor-config cpu_backend=halide`."""
        return tuple(f"--inductor-config {config_text({name: value})}" for name, value in self.inductor_config.items())


#: Short names of our options that another plugin or a conftest of the project has.
_names_of_others: set[str] = set()


def set_names_of_others(names: Collection[str]) -> None:
    """From now on, messages give the long names of these options. `names`: without the dashes."""
    _names_of_others.clear()
    _names_of_others.update(names)


def names_of_others() -> list[str]:
    """Short names of our options that another plugin or a conftest of the project has, by the alphabet."""
    return sorted(_names_of_others)


def option_name(name: str) -> str:
    """How the user can type an option of pytest that is ours: `--target`, or `--conformance-target`."""
    return long_name(name) if name in _names_of_others else f"--{name}"


def long_name(name: str) -> str:
    """The name of an option of pytest that is ours, and that nobody else has. `name`: without the dashes."""
    return f"--conformance-{name}"


#: Between two options of --inductor-config: the comma before a name and an equals sign. Other commas are the value's.
_NEXT_OPTION = re.compile(r",(?=\s*[A-Za-z_][\w.]*\s*=)")


def parse_inductor_config(texts: Sequence[str]) -> dict[str, Any]:
    """Name of an option → value, from the values of --inductor-config: `KEY=VALUE[,KEY=VALUE…]`.

    A value is a Python literal; any other text is a string. Raises SettingsError for a text of another form, and for an
    option with two values. Whether torch has the options: see capture/compiler_options.py.
    """
    options: dict[str, Any] = {}
    for part in (part for text in texts for part in _NEXT_OPTION.split(text)):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not (name and equals and value):
            raise SettingsError(
                f"{option_name('inductor-config')} {part!r}: write KEY=VALUE, such as max_autotune=True"
            )
        parsed = parse_config_value(value)
        if name in options and options[name] != parsed:
            raise SettingsError(
                f"{option_name('inductor-config')} gives {name} two values, {options[name]!r} and {parsed!r}: give one"
            )
        options[name] = parsed
    return options


def parse_config_value(text: str) -> Any:
    """The value of an option of the compiler: a Python literal, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def config_text(options: Mapping[str, Any]) -> str:
    """Options of the compiler as parse_inductor_config reads them: `max_autotune=True,cpp.threads=1`; "" for none."""
    return ",".join(f"{name}={_value_text(value)}" for name, value in options.items())


def typed_inductor_config(options: Mapping[str, Any]) -> str:
    """The option of pytest that gives these options of Inductor, as the user can type it; "" for none."""
    return f"{option_name('inductor-config')} {shlex.quote(config_text(options))}" if options else ""


def _value_text(value: Any) -> str:
    is_plain = isinstance(value, str) and re.fullmatch(r"[\w.:/+-]+", value) and parse_config_value(value) == value
    return value if is_plain else repr(value)


def refuse_beside_inductor_config(settings: Settings) -> None:
    """Raises SettingsError for options that mean something else with --inductor-config, or nothing."""
    given = settings.typed_inductor_config
    if settings.accept:
        raise SettingsError(
            f"{ACCEPT} would store code of {given} as that of the cases' own configuration: leave one of them out"
        )
    reasons = {
        settings.typed_backend_option: "another backend has no options of Inductor",
        option_name("audit"): "opt-outs are judged with the cases' own configuration",
        option_name("write-known-failures"): "a known failure names one option",
    }
    writes = settings.write_known_failures and len(settings.inductor_config) > 1
    is_given = (settings.backend_option, settings.audit, writes)
    for (option, reason), value in zip(reasons.items(), is_given, strict=True):
        if value:
            raise SettingsError(f"{option} cannot be combined with {given}, because {reason}: leave one of them out")


def for_audit(settings: Settings, *, names_checks: bool) -> Settings:
    """The settings of a run with --audit: numerics alone, and each target runs its own code.

    `names_checks`: whether --checks was given. Raises SettingsError for options that --audit cannot be combined with.
    """
    wrong = {
        f"{option_name('checks')} {','.join(settings.checks)}": names_checks and settings.checks != ("numerics",),
        f"{ACCEPT}={settings.accept}": bool(settings.accept),
        settings.typed_backend_option: bool(settings.backend_option),
        option_name("baseline"): bool(settings.baseline),
        option_name("verify-deviceless"): settings.verify_deviceless,
        option_name("fail-on-drift"): settings.fail_on_drift,
    }
    if options := [option for option, is_given in wrong.items() if is_given]:
        raise SettingsError(
            f"{option_name('audit')} judges the opt-outs of numerics and makes no other check: leave out "
            f"{' and '.join(options)}"
        )
    return replace(settings, checks=("numerics",), captures="alone")


def parse_via(text: str, backend: str) -> str:
    """The value of --via. Raises SettingsError for an unknown value, and for a backend without torch.compile."""
    if text not in VIA:
        raise SettingsError(f"unknown {option_name('via')} {text!r}; known are {', '.join(VIA)}")
    if text != "compile" and backend != "inductor":
        raise SettingsError(
            f"{option_name('backend')} {backend} needs torch.compile: leave {option_name('via')} {text} out, or "
            f"{option_name('backend')}"
        )
    return text


def parse_checks(text: str | None) -> tuple[str, ...]:
    """The checks that --checks names, in a fixed order. Raises SettingsError for an unknown check."""
    if text is None:
        return CHECKS
    known = (*CHECKS, *OPTIONAL_CHECKS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise SettingsError(f"unknown check {name!r}; known are {', '.join(known)}")
    if not names:
        raise SettingsError(f"{option_name('checks')} names nothing; known are {', '.join(known)}")
    return tuple(name for name in known if name in names)


def parse_samples(text: str) -> int:
    """The value of --samples: 0 for "all". Raises SettingsError for anything else but a number of 1 or more."""
    if text == "all":
        return 0
    if not (text.isascii() and text.isdigit() and int(text)):
        raise SettingsError(
            f"{option_name('samples')} {text}: give a whole number of 1 or more, or all; 1 is the default"
        )
    return int(text)


def parse_dtypes(text: str | None) -> tuple[str, ...]:
    """The dtypes that --dtypes names, in a fixed order. Raises SettingsError for an unknown one."""
    if text is None:
        return SWEEP_DTYPES
    if text.strip() == "all":
        return SAMPLE_DTYPES
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in SAMPLE_DTYPES]
    if unknown or not names:
        named = f"unknown dtype {unknown[0]!r}" if unknown else "no dtype is named"
        raise SettingsError(f"{option_name('dtypes')}: {named}; known are {', '.join(SAMPLE_DTYPES)}, and all")
    return tuple(name for name in SAMPLE_DTYPES if name in names)


def parse_seed(text: str) -> int:
    """The value of --seed. Raises SettingsError for anything but a whole number of 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"{option_name('seed')} {text}: give a whole number of 0 or more; 0 is the default")
    return int(text)


def parse_item_timeout(seconds: float) -> float:
    """The value of --item-timeout. Raises SettingsError for a negative number."""
    if not seconds >= 0:
        raise SettingsError(f"{option_name('item-timeout')} {seconds:g}: give seconds, or 0 for no limit")
    return seconds


def parse_accept(environment: Mapping[str, str]) -> str:
    """The value of EXPECTTEST_ACCEPT: "" for unset, empty, 0 and false; "all" for 1, true and all; "new".

    Raises SettingsError for any other value, and if the variable CI is set: CI compares and never accepts.
    """
    value = environment.get(ACCEPT, "").strip().lower()
    if value in ("", "0", "false"):
        return ""
    if value not in ("1", "true", "all", "new"):
        raise SettingsError(
            f"{ACCEPT}={value!r} is not known: 1 accepts all, new accepts what is not stored yet, 0 accepts nothing"
        )
    if environment.get("CI", "").strip().lower() not in ("", "0", "false"):
        raise SettingsError(f"{ACCEPT} is set in CI, which never accepts: accept on your branch, and commit the result")
    return "new" if value == "new" else "all"


def configure_expecttest(accept: str, *, workers: bool) -> None:
    """Sets EXPECTTEST_ACCEPT to what expecttest needs.

    expecttest accepts even for "0", and loses literals if several workers write them. So it may accept only if `accept`
    is "all" and there is one process. expecttest reads the variable when it is imported; if it is imported already,
    its own constant is changed as well.
    """
    if accept == "all" and not workers:
        os.environ[ACCEPT] = "1"
    else:
        os.environ.pop(ACCEPT, None)
    if "expecttest" in sys.modules:
        vars(sys.modules["expecttest"])["ACCEPT"] = os.environ.get(ACCEPT)
