# SPDX-License-Identifier: MIT
"""The exceptions that end the command with a line for people, and their exit codes."""


class Failure(Exception):
    """Something outside this program went wrong; the text says what, and what to do."""
    code = 1


class Usage(Failure):
    """The command line lacks something."""
    code = 2
