# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of the secret lookups: the directory of the secrets, and decryption with Ansible vault."""

from __future__ import annotations

import pathlib
import typing as t

from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import secrets_directory


class SecretsLookup(LookupBase):
    """A lookup with the options ``directory`` and ``environment``."""

    def begin(self, variables: t.Any, options: t.Mapping[str, t.Any]) -> tuple[pathlib.Path, dict[str, t.Any]]:
        """Read the options.

        :returns: the directory of the secrets, and the keyword arguments ``check_mode`` and ``decrypt``.
        :raises InputError: the directory cannot be determined.
        """
        self.set_options(var_options=variables, direct=dict(options))
        known = variables or {}
        environment = self._option("environment") or self._templar.template(known.get("footprint_cluster")) or "footprint"
        directory = secrets_directory(self._option("directory"), known.get("inventory_dir"), environment)
        return directory, {"check_mode": bool(known.get("ansible_check_mode")), "decrypt": self._decrypt}

    def _option(self, name: str) -> t.Any:
        """Return an option, templated: it may come from a variable."""
        return self._templar.template(self.get_option(name))

    def _decrypt(self, path: str) -> str:
        """Return the decrypted content of a file that was encrypted with Ansible vault."""
        readable = self._loader.get_real_file(path)
        try:
            with open(readable, encoding="utf-8") as stream:
                return stream.read()
        finally:
            self._loader.cleanup_tmp_file(readable)
