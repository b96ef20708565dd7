"""`python -m conformance`: see cli/main.py."""

import sys


def _main() -> int:
    try:
        from conformance.cli.main import main
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if error.name == "conformance.cli":
            print("error: the commands are in conformance: pip install conformance", file=sys.stderr)
            return 2
        if (error.name or "conformance").partition(".")[0] == "conformance":
            raise
        print(
            f"error: {error.name} is not installed; `pip install` this package, or run `pip install {error.name}`",
            file=sys.stderr,
        )
        return 2
    return main()


if __name__ == "__main__":
    sys.exit(_main())
