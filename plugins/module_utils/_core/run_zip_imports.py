# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Importing out of the archive a module arrives in, at a part of what it costs otherwise.

Ansible sends source code and nothing compiled, and Python compiles a module of an archive once to tell
the name of its file and once more to run it. For a module with many parts that is a good part of what a
run without a change takes. So the name is told without it, and what was compiled is kept on the host,
as Python itself does beside files: by the hash of the source, in one file that only its owner can write.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import stat
import sys
import types
import typing as t
import zipimport

HOME = "/var/lib/reduced.footprint"
# more than the parts of this collection come to; what is larger is none of ours
_MOST = 16 * 1024 * 1024


class Kept:
    """What was compiled in earlier runs: full name → hash of the source, compiled code.

    :arg folder: where it is kept; nobody but root and whoever runs may be able to write there.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, f"compiled-{sys.implementation.cache_tag}-{sys.flags.optimize}")
        self._codes: dict[str, tuple[bytes, bytes]] = {}
        self._new = False
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            self._codes = self._read()

    def _read(self) -> dict[str, tuple[bytes, bytes]]:
        with open(self.path, "rb") as stream:
            found = os.fstat(stream.fileno())
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022 or found.st_size > _MOST:
                return {}
            codes = marshal.load(stream)
        return codes if isinstance(codes, dict) else {}

    def code(self, name: str, source: bytes, path: str) -> types.CodeType:
        """The code of a module, compiled now only if it never was."""
        key = hashlib.sha256(source).digest()
        entry = self._codes.get(name)
        if isinstance(entry, tuple) and len(entry) == 2 and entry[0] == key:
            with contextlib.suppress(ValueError, EOFError, TypeError):
                code = marshal.loads(entry[1])
                if isinstance(code, types.CodeType):
                    return code
        code = compile(source, path, "exec", dont_inherit=True)
        self._codes[name] = (key, marshal.dumps(code))
        self._new = True
        return code

    def keep(self) -> None:
        """Write down what is new; a host where that is not possible is as slow as before."""
        if not self._new:
            return
        half_made = f"{self.path}.{os.getpid()}.new"
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            try:
                with open(os.open(half_made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                    marshal.dump(self._codes, stream)
                    os.fsync(stream.fileno())
                os.replace(half_made, self.path)
            except OSError:
                os.unlink(half_made)
        self._new = False


_kept: Kept | None = None


class _Importer(zipimport.zipimporter):
    """Tells the name of a file from where it stands in the archive, and its code from what was kept."""

    def get_filename(self, fullname: str) -> str:
        """As of any loader; the archives of Ansible hold source files only."""
        place = f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}"
        return f"{place}/__init__.py" if self.is_package(fullname) else f"{place}.py"

    def get_code(self, fullname: str) -> t.Any:
        """As of any loader."""
        path = self.get_filename(fullname)
        return _kept.code(fullname, self.get_data(path), path) if _kept else super().get_code(fullname)


def compile_once(folder: str = HOME) -> None:
    """Let all further imports out of archives be compiled once; outside of an archive nothing changes."""
    global _kept
    if _Importer in sys.path_hooks:
        return
    _kept = Kept(folder)
    sys.path_hooks.insert(0, _Importer)
    for place, finder in sys.path_importer_cache.items():
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache[place] = _Importer(place)


def keep_compiled(check_mode: bool) -> None:
    """Keep for the next run what this one compiled; a check leaves nothing behind."""
    if _kept and not check_mode:
        _kept.keep()
