"""Targets: what cases are compiled for. The table is targets.toml; to add a target, add a row."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from conformance.devices.vendor_devices import BUILT_IN, VendorDevice, device_types, vendor_devices
from conformance.errors import ConformanceError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The device types of this package; vendor_devices.py has others. And those that are GPUs.
DEVICES = BUILT_IN
GPUS = ("cuda", "xpu")
#: Platform → the device type under which torch shows its GPUs: torch built for ROCm calls AMD's GPUs cuda.
PLATFORMS = {"rocm": "cuda"}
#: Instruction set of C++ kernels → the architecture of processors that has it, as platform.machine() calls it.
ARCHITECTURES = {
    "avx2": "x86_64",
    "avx512": "x86_64",
    "amx": "x86_64",
    "neon": "aarch64",
    "sve256": "aarch64",
    "vsx": "ppc64le",
    "zvector": "s390x",
}
ISAS = tuple(ARCHITECTURES)
#: The width in bits by which Inductor chooses an instruction set of x86.
_WIDTHS = {"avx2": 256, "avx512": 512, "amx": 512}

#: How `confirmed` begins if users of the device posted the values.
PUBLIC = "public: "
UNCONFIRMED = "unconfirmed"

#: The table.
TABLE = Path(__file__).with_name("targets.toml")


class TargetError(ConformanceError, ValueError):
    """An unknown device or target, or a wrong row of the table; the message names the known ones."""


@dataclass(frozen=True)
class Target:
    """One row of the table: a device type, and all properties of the device that Inductor's choices depend on.

    `device`: what torch calls the device type. `platform`: "rocm" for GPUs of AMD, which torch calls cuda, else "".
    `confirmed`: where the values were read: on a device, or after PUBLIC who posted them, or UNCONFIRMED. `assumed`:
    the names of properties that no post shows. `isa`, `threads`: of C++ kernels; where a vendor's row leaves them
    out, Inductor chooses. `capability`: (major, minor).
    `properties`: what torch.<device>.get_device_properties() returns for the device, in torch's units (bytes, counts).
    `cudnn`: cuda only: the version of cuDNN, as torch.backends.cudnn.version() returns it, by which PyTorch chooses an
    attention kernel; 0: the version in torch's wheels.
    `flash_attention`: xpu only: whether the device runs Intel's flash attention.
    `variant_of`: the name of the row whose stored code holds for this target too, where none is stored for itself. A
    target with such a row is a variant: it runs on request.
    `stores_code`: whether code is stored for the target, and compared. Without it, its numerics and requirements are
    checked, and `variant_of` says whose known failures hold.
    `code_like`: the name of a row whose kernels Inductor generates in the same way. The known failures of that row
    hold for this target too, and so do the selectors that name it.
    `local`: made from a real GPU that matches no row. No code is stored for it.
    `table`: the file of the row, if it is a further table (see use_tables); "" for this package's table.

    A further row with `variant_of` needs only what differs from that row: see _completed_rows.
    """

    name: str
    device: str
    description: str
    confirmed: str
    isa: str = ""
    threads: int = 0
    capability: tuple[int, int] = (0, 0)
    properties: Mapping[str, Any] = field(default_factory=dict, hash=False)
    cudnn: int = 0
    flash_attention: bool = False
    assumed: tuple[str, ...] = ()
    variant_of: str = ""
    platform: str = ""
    stores_code: bool = True
    code_like: str = ""
    local: bool = False
    table: str = ""

    @property
    def family(self) -> str:
        """What --device calls it, and how its name begins: the platform if it has one, else the device type."""
        return self.platform or self.device

    @property
    def read_on_device(self) -> bool:
        """Whether the suite's own tools read the values on the device."""
        return self.confirmed != UNCONFIRMED and not self.confirmed.startswith(PUBLIC)

    @property
    def simd_options(self) -> dict[str, Any]:
        """The option of Inductor by which another x86 computer generates code for the target's instruction set."""
        return {"cpp.simdlen": _WIDTHS[self.isa]} if self.isa in _WIDTHS else {}

    @property
    def has_fp64(self) -> bool:
        """Whether the device calculates in double precision. Only xpu has devices that do not."""
        return bool(self.properties.get("has_fp64", True))

    def to_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Target:
        """Reads what to_json wrote, after JSON turned its tuples into lists."""
        return cls(**{**data, "capability": tuple(data["capability"]), "assumed": tuple(data["assumed"])})


#: Further tables, in this process; see use_tables.
_FURTHER: list[str] = []
_NAME = re.compile(r"[A-Za-z0-9_.]+")


def use_tables(paths: Sequence[str]) -> None:
    """Adds the rows of these files to the table, in this process; they replace those of an earlier call.

    Raises TargetError for a file that cannot be read, a wrong row, or a row with a name that is taken.
    """
    before, _FURTHER[:] = list(_FURTHER), paths
    targets.cache_clear()
    try:
        targets()
    except TargetError:
        _FURTHER[:] = before
        targets.cache_clear()
        raise


def further_tables() -> list[str]:
    """The files that use_tables added."""
    return list(_FURTHER)


@cache
def targets(path: Path = TABLE) -> dict[str, Target]:
    """Name → target, in the order of the table; then the rows of further tables, see use_tables.

    Raises TargetError, which names the row and its mistake.
    """
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    found = {name: _target(name, dict(row)) for name, row in rows.items()}
    for device in vendor_devices().values() if path == TABLE else ():
        found |= _vendor_rows(device, found)
    for file in _FURTHER if path == TABLE else ():
        further = _further_rows(file)
        for name, row in _completed_rows(further, rows | further).items():
            if name in found:
                owner = found[name].table or "this package"
                raise TargetError(f"{file}: {name} is a target of {owner} already: give your target another name")
            found[name] = dataclasses.replace(_further_target(file, name, row), table=file)
    for target in found.values():
        _check_variant(target, found)
    return found


def _vendor_rows(device: VendorDevice, taken: Mapping[str, Target]) -> dict[str, Target]:
    """The rows of a vendor's table. Raises TargetError, which names the vendor's package."""
    where = f"the targets of {device.package} ({device.targets})"
    try:
        rows = tomllib.loads(device.targets.read_text(encoding="utf-8"))
        rows = _completed_rows(rows, rows)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TargetError(f"{where} are not valid TOML: {error}") from error
    found = {}
    for name, row in rows.items():
        try:
            found[name] = _target(name, dict(row), device)
        except (TargetError, TypeError, ValueError) as error:
            raise TargetError(f"{where}: {error}") from error
        if not re.fullmatch(rf"{device.name}_\w+", name):
            raise TargetError(f"{where}: the row {name!r} must have a name that begins with {device.name}_")
        if found[name].code_like and found[name].code_like not in taken:
            raise TargetError(f"{where}: code_like is {found[name].code_like!r}; known are {', '.join(taken)}")
    if not found:
        raise TargetError(f"{where} have no row; write one such as [{device.name}_one]")
    return found


def _further_rows(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise TargetError(f"the table of targets {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TargetError(f"the table of targets {file} is not valid TOML: {error}") from error


def _further_target(file: str, name: str, row: Any) -> Target:
    """A row of another table. Its name becomes a part of node ids and of headers in snapshots."""
    if not isinstance(row, dict):
        raise TargetError(f"{file}: {name!r} is no row; a row begins with a line such as [cuda_mine]")
    if not _NAME.fullmatch(name):
        raise TargetError(f"{file}: {name!r} cannot name a target; use letters, digits, _ and .")
    try:
        return _target(name, dict(row), vendor_devices().get(row.get("device", "")))
    except (TargetError, TypeError, ValueError) as error:
        raise TargetError(f"{file}: {error}") from None


def _check_variant(target: Target, known: Mapping[str, Target]) -> None:
    base = known.get(target.variant_of)
    if target.variant_of and (base is None or base.device != target.device or base.variant_of):
        raise TargetError(
            f"target {target.name}: variant_of is {target.variant_of!r}; it must name a {target.device} row that is "
            "not a variant itself"
        )
    if target.code_like and target.code_like not in known:
        raise TargetError(f"target {target.name}: code_like is {target.code_like!r}; known are {', '.join(known)}")


def families() -> tuple[str, ...]:
    """What --device takes, and how the names of targets begin: the device types, then the platforms."""
    return (*device_types(), *PLATFORMS)


def code_base_of(name: str) -> str:
    """The name of the row whose stored code holds for the target `name` where it has none; "" if there is none."""
    target = targets().get(name)
    return target.variant_of if target and target.stores_code else ""


def platform_of(name: str) -> str:
    """The platform of the target `name`, as its name says; "" if it has none."""
    family = name.partition("_")[0]
    return family if family in PLATFORMS else ""


def excused_like(name: str) -> str:
    """The name of the row whose known failures the target `name` has too: see variant_of and code_like; "" for none."""
    target = targets().get(name)
    return target.variant_of or target.code_like if target else ""


def selector_words(name: str, device: str) -> set[str]:
    """The words of selectors that are for a target. `device`: its device type."""
    vendor, target = vendor_devices().get(device), targets().get(name)
    words = {name, device, *(vendor.selectors if vendor else ()), *(["gpu"] if device in GPUS else [])}
    words |= {platform} if (platform := platform_of(name)) else set()
    return words | {target.code_like} if target and target.code_like else words


def _target(name: str, row: dict[str, Any], vendor: VendorDevice | None = None) -> Target:
    known = {each.name for each in dataclasses.fields(Target)} - {"name", "local", "table"}
    known -= {"cudnn", "flash_attention", "capability", "platform"} if vendor else set()
    unknown = set(row) - known
    if unknown:
        raise TargetError(f"target {name}: unknown key {min(unknown)!r}; known are {', '.join(sorted(known))}")
    for key in ("device", "description", "confirmed"):
        if not isinstance(row.get(key), str):
            raise TargetError(f"target {name}: {key} is {row.get(key)!r}; it must be a string")
    devices = (vendor.name,) if vendor else DEVICES
    if row["device"] not in devices:
        raise TargetError(f"target {name}: unknown device {row['device']!r}; known are {', '.join(devices)}")
    if (row["device"] == "cpu" or "isa" in row) and row.get("isa") not in ISAS:
        raise TargetError(f"target {name}: isa is {row.get('isa')!r}; it must be one of {', '.join(ISAS)}")
    platform = row.get("platform", "")
    if platform and PLATFORMS.get(platform) != row["device"]:
        known_platforms = ", ".join(f"{name!r} with device = {device!r}" for name, device in PLATFORMS.items())
        raise TargetError(f"target {name}: platform is {platform!r}; it may be {known_platforms}")
    if platform and not name.startswith(f"{platform}_"):
        raise TargetError(f"target {name}: the name of a row with this platform must begin with {platform}_")
    if row["device"] in GPUS:
        row["capability"] = tuple(row.get("capability", ()))
        if len(row["capability"]) != 2 or not row.get("properties"):
            raise TargetError(f"target {name}: a GPU needs capability = [major, minor] and a table of properties")
    row["assumed"] = tuple(row.get("assumed", ()))
    if unknown := set(row["assumed"]) - set(row.get("properties", ())):
        raise TargetError(f"target {name}: assumed names {min(unknown)!r}, which is none of its properties")
    return Target(name=name, **row)


def multiprocessor_count(properties: Mapping[str, Any]) -> int:
    """How many streaming multiprocessors (cuda) or Xe cores (xpu) a device has. Inductor splits reductions by it."""
    return properties.get("multi_processor_count") or properties.get("gpu_subslice_count") or 0


def matching_target(device: str, capability: tuple[int, int], properties: Mapping[str, Any]) -> Target:
    """The target of a real GPU: the row with its number of multiprocessors and, on cuda, its capability, on rocm its
    architecture; on xpu, the row must also agree on fp64.

    Without such a row: a local target, `cuda_local`, `rocm_local` or `xpu_local`.
    """
    architecture = amd_architecture(properties) if device == "cuda" else ""
    platform = "rocm" if architecture else ""
    for target in targets().values():
        if platform:
            same_part = amd_architecture(target.properties) == architecture
        elif device == "cuda":
            same_part = target.capability == capability
        else:
            same_part = _same_fp64(target.properties, properties)
        same_size = multiprocessor_count(target.properties) == multiprocessor_count(properties)
        if target.device == device and target.platform == platform and same_part and same_size:
            return target
    return Target(
        name=f"{platform or device}_local",
        device=device,
        platform=platform,
        description=str(properties.get("name", device)),
        confirmed="this device",
        capability=capability,
        properties=properties,
        local=True,
    )


def amd_architecture(properties: Mapping[str, Any]) -> str:
    """Returns "gfx942" for a GPU of AMD, "" for others."""
    name = str(properties.get("gcnArchName", ""))  # of NVIDIA: the product's name
    return name.partition(":")[0] if name.startswith("gfx") else ""


def _same_fp64(row: Mapping[str, Any], properties: Mapping[str, Any]) -> bool:
    return row.get("has_fp64", True) == properties.get("has_fp64", True)


#: What each row says for itself.
_OWN = ("variant_of", "stores_code", "assumed", "description", "confirmed")


def _completed_rows(rows: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Name → row, with the keys and the properties that a variant leaves out. `known`: the rows that may be named.

    Only rows of further tables and of vendors are completed; those of this package's table say everything. What is no
    row stays as it is: reading it as a target says what is wrong.
    """
    return {name: _completed(row, known) for name, row in rows.items()}


def _completed(row: Any, known: Mapping[str, Any]) -> Any:
    base = known.get(row.get("variant_of", "")) if isinstance(row, dict) else None
    if not isinstance(base, dict) or base is row:
        return row
    inherited = {key: value for key, value in base.items() if key not in _OWN}
    described = {"description": f"a variant of {row['variant_of']}", "confirmed": "unconfirmed"}
    result = inherited | described | row
    own, properties = row.get("properties", {}), base.get("properties", {})
    if isinstance(own, dict) and properties:
        result["properties"] = properties | own
        assumed = [name for name in base.get("assumed", ()) if name not in own]
        result["assumed"] = list(dict.fromkeys([*assumed, *row.get("assumed", ())]))
    return result
