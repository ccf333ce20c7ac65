# SPDX-License-Identifier: MIT
"""The one exception that ends the command with a line for people and exit code 1."""


class Failure(Exception):
    """Something outside this program went wrong; the text says what, and what to do."""
