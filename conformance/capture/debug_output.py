"""Debug output of torch for code that a capture only generates and does not compile."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any


def write_output_code(code: str) -> None:
    """Writes generated code to the log (TORCH_LOGS=output_code) and the debug folder (TORCH_COMPILE_DEBUG).

    GraphLowering.compile_to_module does the same for code that it compiles. Without this function, code
    that is not compiled would be missing in both.
    """
    from torch._inductor import config
    from torch._inductor.codecache import output_code_log  # TORCH_LOGS=output_code enables this logger
    from torch._inductor.virtualized import V

    output_code_log.debug("Output code: \n%s", code)
    if config.trace.enabled:  # TORCH_COMPILE_DEBUG sets it
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "output_code.py")
            path.write_text(code, encoding="utf-8")
            debug: Any = V.debug
            debug.output_code(str(path))
