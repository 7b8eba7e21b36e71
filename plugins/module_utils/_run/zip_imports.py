# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Importing out of the archive a module arrives in, at half of what it costs otherwise.

Python compiles a module of an archive once to tell the name of its file and once more to run it.
Ansible sends source code and nothing compiled, so for a module with many parts that is a good
part of what a run without a change takes.
"""

from __future__ import annotations

import sys
import zipimport


class _Importer(zipimport.zipimporter):
    """Tells the name of a file from where it stands in the archive."""

    def get_filename(self, fullname: str) -> str:
        """As of any loader; the archives of Ansible hold source files only."""
        place = f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}"
        return f"{place}/__init__.py" if self.is_package(fullname) else f"{place}.py"


def compile_once() -> None:
    """Let all further imports out of archives be compiled once; outside of an archive nothing changes."""
    if _Importer in sys.path_hooks:
        return
    sys.path_hooks.insert(0, _Importer)
    for place, finder in sys.path_importer_cache.items():
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache[place] = _Importer(place)
