# SPDX-License-Identifier: MIT
"""The form of values from outside, as JSON has them. Whatever has it can be used without a further check."""
from __future__ import annotations

from math import isfinite
from typing import Any

LEAST, MOST = -1 << 63, (1 << 64) - 1  # of a number of the library


def has_form(value: Any, form: Any) -> bool:
    """A form is a type; a list with the form of each element; or an object with the form of each key that must be
    there. A float may be an integer."""
    if isinstance(form, list):
        return isinstance(value, list) and all(has_form(one, form[0]) for one in value)
    if isinstance(form, dict):
        return isinstance(value, dict) and all(key in value and has_form(value[key], one) for key, one in form.items())
    if form is float and isinstance(value, float):
        return isfinite(value)
    if form in (int, float):
        return type(value) is int and LEAST <= value <= MOST
    return isinstance(value, form)
