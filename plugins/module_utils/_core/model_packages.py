# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The error about Python libraries that are missing: all of them at once, and for which interpreter.

Imported after a failed import only: each import slows down every run.
"""

from __future__ import annotations

import importlib.util
import sys

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

#: What modules about VMs use.
VM = ("libvirt", "lxml", "jinja2", "yaml")
_SYSTEM = "/usr/bin/python3"


def missing(*libraries: str) -> BackendError:
    """Return the error that some libraries are missing; those that are present are left out."""
    # one that is present may be broken, if no other is missing
    absent = [each for each in libraries if importlib.util.find_spec(each) is None] or libraries
    hint = f"Install {', '.join(f'python3-{each}' for each in absent)} (the role virt_host does so on virt hosts)"
    if sys.executable != _SYSTEM:
        # a virtual environment, or a second version of Python: the packages may be installed, but for another one
        hint += f", and set ansible_python_interpreter to {_SYSTEM}, for which these packages are"
    return BackendError(f"the Python interpreter of this host, {sys.executable}, cannot import {', '.join(absent)}.", hint=f"{hint}.")
