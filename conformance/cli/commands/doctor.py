"""`doctor`: what this machine can do, what is missing, and the commands that install it."""

from __future__ import annotations

import argparse
import itertools
import platform
import sys

from conformance.cli import doctor_checks
from conformance.cli.doctor_checks import Finding
from conformance.cli.target_rows import target_row
from conformance.devices.machine import Machine
from conformance.devices.targets import GPUS
from conformance.harness.overlay.report import layer_lines
from conformance.terminal import heading, styled, table_text

DESCRIPTION = """\
Say what this machine can do, what is missing, and how to install it.
Exit status 1: the suite cannot run here."""

EXAMPLES = """\
examples:
  python -m conformance doctor
  python -m conformance doctor --describe-device"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--describe-device",
        action="store_true",
        help="print a row for conformance/devices/targets.toml that describes the GPU of this machine",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if the suite cannot run at all. Raises PreparationError if torch cannot list its devices."""
    if arguments.describe_device:
        return describe_device(Machine.detect())
    layers = [Finding(*_named(line)) for line in layer_lines(arguments.overlay)]
    width = max(map(len, (*doctor_checks.names(), *(each.name for each in layers))))
    python = Finding("Python", f"{platform.python_version()} ({sys.executable})")
    findings = []
    for finding in itertools.chain([python], doctor_checks.findings(), layers):
        print(_row(finding, width), flush=True)
        findings.append(finding)
    print_missing(findings)
    fatal = any(finding.fatal for finding in findings)
    can_run = "The suite can run here"
    ending = f"{can_run}, but for what is missing." if any(each.missing for each in findings) else f"{can_run}."
    print(f"\n{styled('The suite cannot run here.', 'red') if fatal else ending}")
    return int(fatal)


def _named(line: str) -> tuple[str, str]:
    name, _, text = line.partition(": ")
    return name, text


def print_missing(findings: list[Finding]) -> None:
    """Prints what is missing, with the commands that install it."""
    missing = [finding for finding in findings if finding.missing]
    if missing:
        print(f"\n{heading('Missing:')}")
    for finding in missing:
        print(f"  {finding.missing}")
        if finding.command:
            print(f"      {finding.command}")


def _row(finding: Finding, width: int) -> str:
    """A line of the table. `width`: of the column of names."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=width, no_wrap=True)
    table.add_column()
    table.add_row(finding.name, Text(finding.text, "red" if finding.missing else ""))
    return table_text(table)


def describe_device(machine: Machine) -> int:
    """Prints a row for each GPU. Returns 1 without a GPU."""
    gpus = [device for device in machine.gpus if device in GPUS]
    if not gpus:
        print("torch finds no GPU here: `python -m conformance doctor` says why", file=sys.stderr)
        return 1
    print("\n\n".join(target_row(machine, device) for device in gpus))
    return 0
