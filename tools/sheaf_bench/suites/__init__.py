# SPDX-License-Identifier: MIT
"""The suites: each module of this package with a SUITE."""
import importlib
import pkgutil

from .suite import Suite

_MODULES = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
SUITES: dict[str, Suite] = {module.SUITE.name: module.SUITE for module in _MODULES if hasattr(module, "SUITE")}
