# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faster imports from the zip archive of a module.

Ansible sends source code only, and Python compiles each module in an archive twice: to determine its
file name, and to run it. With many imported modules this is a large part of the time of a run without
changes. So the file name is determined without compiling, and compiled code is cached on the host, keyed
by the hash of the source (as Python does for files), in one file that only its owner can write.
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
# larger than the compiled code of this collection; a larger file is not a valid cache
_MOST = 16 * 1024 * 1024


class Kept:
    """Cache of compiled code: full module name → hash of the source, compiled code.

    :arg folder: folder of the cache; must be writable only by root and the current user.
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
        """Return the code of a module, compiled only if it is not in the cache."""
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
        """Write the cache if it has new entries; failures are ignored."""
        if not self._new:
            return
        partial = f"{self.path}.{os.getpid()}.new"
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            try:
                with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                    marshal.dump(self._codes, stream)
                    os.fsync(stream.fileno())
                os.replace(partial, self.path)
            except OSError:
                os.unlink(partial)
        self._new = False


_kept: Kept | None = None


class _Importer(zipimport.zipimporter):
    """Importer that derives file names from the position in the archive, and returns cached code."""

    def get_filename(self, fullname: str) -> str:
        """See :class:`zipimport.zipimporter`; archives of Ansible contain source files only."""
        place = f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}"
        return f"{place}/__init__.py" if self.is_package(fullname) else f"{place}.py"

    def get_code(self, fullname: str) -> t.Any:
        """See :class:`zipimport.zipimporter`."""
        path = self.get_filename(fullname)
        return _kept.code(fullname, self.get_data(path), path) if _kept else super().get_code(fullname)


def compile_once(folder: str = HOME) -> None:
    """Use the cache for all further imports from archives; no effect outside of an archive."""
    global _kept
    if _Importer in sys.path_hooks:
        return
    _kept = Kept(folder)
    sys.path_hooks.insert(0, _Importer)
    for place, finder in sys.path_importer_cache.items():
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache[place] = _Importer(place)


def keep_compiled(check_mode: bool) -> None:
    """Write the cache for the next run, except in check mode."""
    if _kept and not check_mode:
        _kept.keep()
