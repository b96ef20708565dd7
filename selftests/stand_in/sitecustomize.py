"""Python imports this at its start where the folder is on PYTHONPATH: puts the stand-in for an Intel GPU in place."""

import xpu_stand_in

xpu_stand_in.install()
