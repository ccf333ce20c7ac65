# SPDX-License-Identifier: MIT
"""The suites: each module of this package, here and in maple/, with a SUITE."""
import importlib
import pkgutil

from sheaf_tool.paths import ROOT
from .suite import Suite

__path__.append(str(ROOT / "maple" / "bench" / "suites"))
_MODULES = [importlib.import_module(f"{__name__}.{name}") for name in sorted(found.name for found in pkgutil.iter_modules(__path__))]
SUITES: dict[str, Suite] = {module.SUITE.name: module.SUITE for module in _MODULES if hasattr(module, "SUITE")}
