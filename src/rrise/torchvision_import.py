"""Import torchvision beside a torch built for the CPU only.

The published torchvision wheel is built against a CUDA torch. Beside a CPU build its compiled
operators do not load, and the import stops because Python code in it refers to two of them by name.
Nothing here or in timm's classifiers calls those operators, so registering the bare names is enough.
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
    """Import torchvision, registering the operator names it misses when, and only when, that fails.

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
