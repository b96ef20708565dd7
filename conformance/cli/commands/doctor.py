"""`doctor`: what is here, what is missing for more, and the command that adds it."""

from __future__ import annotations

import argparse
import platform
import sys

from conformance.cli import diagnosis
from conformance.cli.diagnosis import Finding
from conformance.devices.machine import Machine
from conformance.devices.targets import targets
from conformance.terminal import heading, styled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--describe-device", action="store_true", help="a row of targets.toml for the gpu that is here")


def run(arguments: argparse.Namespace) -> int:
    """1 where the suite cannot run at all. Raises PreparationError where torch cannot be asked for devices."""
    if arguments.describe_device:
        return describe_device(Machine.detect())
    findings = [Finding("Python", f"{platform.python_version()} ({sys.executable})"), *diagnosis.findings()]
    width = max(len(finding.name) for finding in findings) + 2
    for finding in findings:
        said = styled(finding.said, "red") if finding.missing else finding.said
        print(f"{finding.name:<{width}}{said}")
    missing = [finding for finding in findings if finding.missing]
    if missing:
        print(f"\n{heading('Missing for more:')}")
    for finding in missing:
        print(f"  {finding.missing}")
        if finding.command:
            print(f"      {finding.command}")
    fatal = any(finding.fatal for finding in findings)
    print(f"\n{styled('The suite cannot run here.', 'red') if fatal else 'The suite can run here.'}")
    return int(fatal)


def describe_device(machine: Machine) -> int:
    """Prints a row for each gpu; 1 where there is none."""
    if not machine.gpus:
        print("no gpu is here that this torch can use: see `python -m conformance doctor`", file=sys.stderr)
        return 1
    print("\n\n".join(row(machine, device) for device in machine.gpus))
    return 0


def row(machine: Machine, device: str) -> str:
    """The text to put into targets.toml, with the properties that Inductor asks for."""
    from conformance.devices.environment import torch_build

    gpu, own = machine.gpus[device], machine.target_of(device)
    capability = gpu["capability"]
    name = own.name
    if own.local:
        name = f"cuda_sm{capability[0]}{capability[1]}" if device == "cuda" else f"{device}_name_it"
        while name in targets():
            name += "_other"
    wanted = {key for target in targets().values() if target.device == device for key in target.properties}
    properties = {key: value for key, value in gpu["properties"].items() if key in wanted}
    lines = [] if own.local else [f"# the table has it already, as {own.name}"]
    lines += [
        f"[{name}]",
        f'device = "{device}"',
        f"description = {_toml(str(gpu['properties'].get('name', device)))}",
        f'confirmed = "on the device, torch {torch_build().version}"',
        f"capability = [{capability[0]}, {capability[1]}]",
        f"[{name}.properties]",
        *(f"{key} = {_toml(value)}" for key, value in properties.items()),
    ]
    lines += [f"# not reported by this torch: {key}" for key in sorted(wanted - set(properties))]
    return "\n".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)
