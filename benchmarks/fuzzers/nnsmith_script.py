"""Writes what NNSmith reports as a script that needs torch alone. Runs with NNSmith's Python.

python benchmarks/fuzzers/nnsmith_script.py FOLDER_OF_THE_REPORT FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from nnsmith.materialize import TestCase  # type: ignore[import-not-found]
from nnsmith.materialize.torch import TorchModelCPU  # type: ignore[import-not-found]

TEXT = """# {title}
import torch
from pathlib import Path

here = Path(__file__).resolve().parent


{model}
model.load_state_dict(torch.load(here / "weights.pt"), strict=False)
model.eval()
inputs = torch.load(here / "inputs.pt")
with torch.no_grad():
    eager = model(*inputs)
    compiled = torch.compile(model, fullgraph=True)(*inputs)
torch.testing.assert_close(compiled, eager, rtol=1e-2, atol=1e-3, equal_nan=True)
"""


def main() -> None:
    report, folder = Path(sys.argv[1]), Path(sys.argv[2])
    case = TestCase.load(TorchModelCPU, str(report))
    model = case.model
    torch.save({name: value.detach() for name, value in model.native_model.state_dict().items()}, folder / "weights.pt")
    torch.save([torch.from_numpy(value) for value in case.oracle.input.values()], folder / "inputs.pt")
    text = TEXT.format(title=f"found by NNSmith: {report.name}", model=model.emit_def("model", "Model"))
    (folder / "script.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
