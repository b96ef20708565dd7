"""Records torch's own logs of a compile. What TORCH_LOGS prints stays the same."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator

#: Log artifacts (`TORCH_LOGS="help"` lists them) that explain the generated code.
ARTIFACTS = ("graph_breaks", "recompiles", "fusion", "schedule", "loop_ordering", "loop_tiling", "perf_hints")

#: Modules that log these artifacts. They are imported before recording: a module creates its loggers when imported.
_MODULES = (
    "torch._dynamo.convert_frame",
    "torch._dynamo.guards",
    "torch._dynamo.symbolic_convert",
    "torch._inductor.compile_fx",
    "torch._inductor.scheduler",
    "torch._inductor.codegen.simd",
    "torch._inductor.codegen.triton",
    "torch._inductor.codegen.cpp",
    "torch._inductor.tiling_utils",
)


class _RecordingHandler(logging.Handler):
    def __init__(self, artifact: str, lines: list[tuple[str, str]]) -> None:
        super().__init__(logging.DEBUG)
        self._artifact, self._lines = artifact, lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append((self._artifact, record.getMessage()))


@contextlib.contextmanager
def record_logs() -> Iterator[list[tuple[str, str]]]:
    """Records each message that is logged inside the context, as (artifact, message). Prints nothing more.

    Torch names an artifact's logger `<module>.__<artifact>` (torch._logging.getArtifactLogger) and makes
    a message only if the logger's isEnabledFor is true. So a level and a handler are enough. torch._logging.set_logs
    would replace torch's own log state.
    """
    for name in _MODULES:
        with contextlib.suppress(ImportError):  # some, such as tiling_utils, move between versions
            importlib.import_module(name)
    lines: list[tuple[str, str]] = []
    with contextlib.ExitStack() as stack:
        for name, logger in list(logging.Logger.manager.loggerDict.items()):
            artifact = name.rpartition(".__")[2]
            if name.startswith("torch.") and artifact in ARTIFACTS and isinstance(logger, logging.Logger):
                handler = _RecordingHandler(artifact, lines)
                stack.callback(_restore, logger, handler, logger.level, logger.propagate)
                if logger.level != logging.DEBUG:
                    # TORCH_LOGS does not print this artifact: record its messages, and do not pass them on
                    logger.setLevel(logging.DEBUG)
                    logger.propagate = False
                logger.addHandler(handler)
        yield lines


def _restore(logger: logging.Logger, handler: logging.Handler, level: int, propagate: bool) -> None:
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagate


@contextlib.contextmanager
def without_error_logs() -> Iterator[None]:
    """Torch logs as an error, with a traceback, what an operator refuses, and raises it too."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
