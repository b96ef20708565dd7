"""`confirm`: runs the suite on a real device, and writes an archive for people who do not have it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conformance.cases.lookup import suite_folder
from conformance.cli import confirming, doctor_checks
from conformance.cli.commands.doctor import print_missing
from conformance.cli.run_options import add_paths_argument
from conformance.storage.confirm_archive import SUFFIX

DESCRIPTION = f"""\
If you have a GPU: compare it with what the suite expects of it.
Checks the environment. Runs the suite on the GPU, and generates its code
without the GPU too. Writes what it gave into one archive ({SUFFIX}), without
paths, user names and host names. `accept` stores the archive elsewhere.
Exit status 1: the archive is written, and something differs or fails here."""

EXAMPLES = """\
examples:
  python -m conformance confirm --quick       one case of each function
  python -m conformance confirm -n 8          everything, in 8 processes
  python -m conformance confirm -k "hflip or vflip" --output flips.zip
  python -m conformance confirm --target cpu_avx2 -k hflip  on a CPU"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths_argument(parser, "those of this package")
    parser.add_argument("--target", metavar="NAME", help="a target that runs here; default: that of the GPU")
    parser.add_argument("-k", dest="keyword", metavar="WORDS", help="select cases by words of the id, as pytest does")
    parser.add_argument("--quick", action="store_true", help="run one case of each function")
    parser.add_argument(
        "-n", dest="processes", default="auto", metavar="N", help="processes; default: one for each core"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help=f"the archive; default: conformance-<target>-torch<version>{SUFFIX} in this folder",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if something differs or fails on the device. Raises PreparationError and TargetError before it runs.

    Raises ConfirmError where the run does not come to its end.
    """
    paths = arguments.paths or [suite_folder()]
    confirming.check_output(arguments.output)
    findings = list(doctor_checks.findings())
    print("\n".join(f"{finding.name:<10} {finding.text}" for finding in findings))
    print_missing(findings)
    try:
        confirmation = confirming.prepare(findings, arguments.target, paths, arguments.output, arguments.overlay)
        print(f"\n{confirmation.announcement()}", flush=True)
        status = confirmation.run(
            paths, arguments.keyword, arguments.processes, quick=arguments.quick, subset=arguments.subset
        )
        print("\n".join(confirmation.write()))
    except KeyboardInterrupt:
        print("\ninterrupted: no archive was written", file=sys.stderr)
        return 130
    return status
