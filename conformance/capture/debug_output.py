"""What torch prints and keeps when a module is compiled, where a capture only generates it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any


def write_output_code(code: str) -> None:
    """For TORCH_LOGS=output_code and TORCH_COMPILE_DEBUG, as GraphLowering.compile_to_module does it, 2.11 to 2.15.

    Without this, code that is not compiled would be missing from the log and from the debug folder.
    """
    from torch._inductor import config
    from torch._inductor.codecache import output_code_log  # the logger that TORCH_LOGS=output_code switches on
    from torch._inductor.virtualized import V

    output_code_log.debug("Output code: \n%s", code)
    if config.trace.enabled:  # by TORCH_COMPILE_DEBUG
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "output_code.py")
            path.write_text(code, encoding="utf-8")
            debug: Any = V.debug
            debug.output_code(str(path))
