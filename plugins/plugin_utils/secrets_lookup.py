# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of the secret lookups: the directory of the secrets, and decryption with Ansible vault."""

from __future__ import annotations

import pathlib
import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import Recipe, secret_name
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import Permit, secret, secrets_directory


class SecretsLookup(LookupBase):
    """A lookup with the options of the documentation fragment ``secrets``."""

    name: str

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[t.Any]:
        """Return the value of each term.

        :raises AnsibleError: an invalid name or option, or a file that cannot be read or written.
        """
        self.set_options(var_options=variables, direct=kwargs)
        try:
            directory, given = self._begin(variables)
            return [self.value(term, directory, **given) for term in terms]
        except FootprintError as error:
            raise AnsibleError(f"{self.name}: {error}") from None

    def value(self, term: t.Any, directory: pathlib.Path, **given: t.Any) -> t.Any:
        """Return the value of one term.

        :arg directory: the directory of the secrets; ``given`` are the keyword arguments ``check_mode``, ``decrypt`` and ``permit``.
        :raises FootprintError: an invalid name or option, or a file that cannot be read or written.
        """
        raise NotImplementedError

    def _begin(self, variables: t.Any) -> tuple[pathlib.Path, dict[str, t.Any]]:
        known = variables or {}
        environment = self._option("environment") or self._templar.template(known.get("footprint_cluster")) or "footprint"
        directory = secrets_directory(self._option("directory"), known.get("inventory_dir"), environment)
        permit = Permit(
            directory,
            self.get_option("generate"),
            # documented variables of every job
            "awx_job_id" in known or "tower_job_id" in known,
            tuple(str(mark) for mark in self._option("stores") or ()),
        )
        return directory, {"check_mode": bool(known.get("ansible_check_mode")), "decrypt": self._decrypt, "permit": permit}

    def _controller_password(self, server: str, name: str, directory: pathlib.Path, **given: t.Any) -> str:
        """Return the password of a server's management controller; unlike other secrets it is never generated.

        :arg name: of the secret.
        :raises InputError: its file does not exist.
        """
        file = directory / f"{secret_name(name)}.txt"
        if not file.exists():
            raise InputError("does not exist.", str(file), f"Write the password of the BMC of {server} into it; only its owner may read it.")
        return secret(name, directory, Recipe.parse(32, ["ascii_letters"]), **given)

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
