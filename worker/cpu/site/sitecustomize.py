"""Runs as every engine process starts, before any of its imports.

SGLang imports torchvision. Where its compiled part was built for CUDA, CPU torch cannot load it, and
the import fails at two operators it expects to be there: their schemas are defined here. Nothing that
a text model does calls them.

The folder `stand_in` goes last on the path, so that whatever is really installed wins.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

_HERE = Path(__file__).resolve().parent
_SCHEMAS = [
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
]


class _BeforeOperators(MetaPathFinder):
    """Finds nothing. Being asked for the module that needs the operators is the signal to define them."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torchvision._meta_registrations":
            sys.meta_path.remove(self)
            _define_missing_operators()
        return None


def _define_missing_operators() -> None:
    import torch

    extension = import_module("torchvision.extension")
    if extension._has_ops():
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    extension.__dict__["_schemas"] = library  # they live as long as it does


def _run_hidden_sitecustomize() -> None:
    """Python runs only the first sitecustomize on its path; the one that this file hides runs too."""
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


sys.path.append(str(_HERE.parent / "stand_in"))
sys.meta_path.insert(0, _BeforeOperators())
_run_hidden_sitecustomize()
