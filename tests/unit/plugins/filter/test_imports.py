# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the files of filters import when they are loaded.

Ansible looks for a filter in all files of filters in alphabetical order, and does so again in each process of a task. What they import
together is paid for every task with a filter on every host; at the top of the files it was half of the time of a whole run.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[4] / "plugins" / "filter"
PACKAGE = "ansible_collections.reduced.footprint.plugins"
CHEAP = {"_core", "_core.model_errors", "_controlplane", "_controlplane.plan_clock"}
PROGRAM = """
import importlib, sys
package, *names = sys.argv[1:]
for name in names:
    importlib.import_module(f"{package}.filter.{name}")
start = f"{package}.module_utils."
print(*(name[len(start):] for name in sys.modules if name.startswith(start)))
"""


def test_loading_filters_imports_nothing_that_takes_time() -> None:
    names = [path.stem for path in FOLDER.glob("*.py")]
    assert len(names) > 10
    done = subprocess.run([sys.executable, "-c", PROGRAM, PACKAGE, *names], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= CHEAP, "import them in the function"
