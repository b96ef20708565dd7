"""What torch's own logs say of a compile, taken down beside whatever TORCH_LOGS asks for, which goes on as it was."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator

#: Artifacts in torch's sense (`TORCH_LOGS="help"` explains them) that say why the code is as it is.
ARTIFACTS = ("graph_breaks", "recompiles", "fusion", "schedule", "loop_ordering", "loop_tiling", "perf_hints")

#: Modules that log these. A logger is made when its module is imported: those of a later import would be missed.
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
    """(artifact, message) of all that is logged inside. Levels and handlers are put back; nothing else is printed.

    Torch names an artifact's logger `<module>.__<artifact>` (torch._logging.getArtifactLogger, 2.11 to 2.15), and says
    through isEnabledFor whether the message is to be made at all: a level and a handler are enough, and torch's own
    state, which torch._logging.set_logs would replace, stays untouched.
    """
    for name in _MODULES:
        with contextlib.suppress(ImportError):  # tiling_utils and the like move between versions
            importlib.import_module(name)
    lines: list[tuple[str, str]] = []
    with contextlib.ExitStack() as stack:
        for name, logger in list(logging.Logger.manager.loggerDict.items()):
            artifact = name.rpartition(".__")[2]
            if name.startswith("torch.") and artifact in ARTIFACTS and isinstance(logger, logging.Logger):
                handler = _RecordingHandler(artifact, lines)
                stack.callback(_put_back, logger, handler, logger.level, logger.propagate)
                if logger.level != logging.DEBUG:
                    # not asked for by TORCH_LOGS: it is taken here, and goes no further
                    logger.setLevel(logging.DEBUG)
                    logger.propagate = False
                logger.addHandler(handler)
        yield lines


def _put_back(logger: logging.Logger, handler: logging.Handler, level: int, propagate: bool) -> None:
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagate
