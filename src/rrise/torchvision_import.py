"""Import torchvision beside a torch built for the CPU only.

The published torchvision wheel is built against a CUDA torch. Beside a CPU build, its compiled operators
do not load, and its import fails because its Python code refers to two of them by name. Neither RRISE nor
timm's classifiers call those operators, so registering the bare names is enough.
"""

import importlib
import sys
from types import ModuleType

import torch

_SIGNATURES = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_libraries: list[torch.library.Library] = []


def import_torchvision() -> ModuleType:
    """Import torchvision; if that fails, register the missing operator names and import it again.

    Call it before the first import of timm or torchvision on a machine without CUDA.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "FRAGMENT")
    for signature in _SIGNATURES:
        library.define(signature)
    _libraries.append(library)  # the names live as long as the library object
    return importlib.import_module("torchvision")
