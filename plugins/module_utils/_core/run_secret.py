# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: read a secret from a file of the operator, or generate it once."""

from __future__ import annotations

import pathlib
import random
import secrets
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_secret_file
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import KINDS
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import DIRECTORY, Recipe, environment_name, secret_name

# Ansible parses every file below an inventory directory, and would read a secret as a host name. It ignores the suffix .txt.
_SUFFIX = ".txt"
_VAULT = "$ANSIBLE_VAULT;"
#: The file that identifies a directory of secrets. Hosts record its content when they are deployed.
MARK = ".store"


class Permit(t.NamedTuple):
    """Whether missing secrets may be generated.

    :arg generate: what the operator chose; ``None`` for the default, which is true except in a job of AWX.
    :arg ephemeral: this run is a job of AWX, whose files are lost when it ends.
    :arg stores: the records of the hosts, with the mark of the directory with whose secrets each was deployed.
    """

    directory: pathlib.Path
    generate: bool | None = None
    ephemeral: bool = False
    stores: tuple[str, ...] = ()

    def check(self, path: pathlib.Path, *, check_mode: bool, decrypt: t.Callable[[str], str]) -> None:
        """Check that a secret may be generated, and mark the directory unless in check mode."""
        if self.generate is None and self.ephemeral:
            raise RefusedError(
                "must be generated, but what a job of AWX generates is lost when the job ends.",
                str(path),
                "Set footprint_secrets to a directory that survives and contains it, or set the variable of this secret; see docs/awx.md.",
            )
        if self.generate is False:
            raise RefusedError(
                "must be generated, but footprint_secrets_generate is false.", str(path), "Write this file, or set the variable that replaces this secret."
            )
        if self.ephemeral and not self.directory.is_dir():
            raise RefusedError(
                "is not a directory in this job of AWX, so generated secrets would be lost.",
                str(self.directory),
                "Mount it into the containers of jobs, or correct footprint_secrets.",
            )
        mark = io_secret_file.read(self.directory / MARK)
        if mark and mark.startswith(_VAULT):
            mark = decrypt(str(self.directory / MARK)).strip()
        if self.stores and mark not in self._marks():
            raise RefusedError(
                "must be generated, but the hosts of this environment were deployed with the secrets of another directory, which new ones would not match.",
                str(path),
                "Restore or mount that directory and set footprint_secrets to it. To replace all secrets, first remove "
                "/var/lib/reduced.footprint/secrets on the hosts.",
            )
        if not mark and not check_mode:
            io_secret_file.create_once(self.directory / MARK, secrets.token_hex(16))

    def _marks(self) -> set[t.Any]:
        # before there were schema numbers, the record was the mark itself
        kind, place = KINDS["secrets_record"], "/var/lib/reduced.footprint/secrets of a host"
        return {kind.load(text, place).get("mark") if text.startswith("{") else text for text in self.stores}


def secrets_directory(given: t.Any, inventory_dir: t.Any, environment: t.Any) -> pathlib.Path:
    """Return the directory of the secrets of an environment.

    :arg given: directory set by the operator; empty for the default in the directory of the inventory.
    """
    name = environment_name(environment)
    if given:
        path = pathlib.Path(str(given)).expanduser()
        if not path.is_absolute():
            raise InputError(f"{str(given)!r} is not an absolute path.", "footprint_secrets", 'Write e.g. "{{ inventory_dir }}/secrets".')
        return path
    if not inventory_dir:
        raise InputError("is required without an inventory file, whose directory is the default.", "footprint_secrets", "Set it to a directory.")
    return pathlib.Path(str(inventory_dir)) / DIRECTORY / name


def secret(
    name: t.Any,
    directory: pathlib.Path,
    recipe: Recipe,
    *,
    check_mode: bool,
    decrypt: t.Callable[[str], str],
    permit: Permit | None = None,
) -> str:
    """Return the secret with a name; the first caller generates it.

    :arg permit: whether it may be generated; ``None`` for always.
    :arg decrypt: returns the decrypted content of a file that was encrypted with Ansible vault.
    :arg check_mode: write nothing. A missing secret is replaced by a placeholder that matches the recipe and is the same for all callers.
        The placeholder is derived from the name and is not secret.
    """
    path = directory / f"{secret_name(name)}{_SUFFIX}"
    placeholder = recipe.make(random.Random(f"only for check mode: {path}"))
    found = kept(path, lambda: recipe.make(random.SystemRandom()), check_mode=check_mode, decrypt=decrypt, permit=permit, placeholder=placeholder)
    # that of an encrypted file
    found = found.rstrip("\r\n")
    if not found or "\n" in found:
        raise InputError("must be one line of text.", str(path), "Write the secret into it, or remove it to get a new one.")
    return found


def kept(
    path: pathlib.Path,
    make: t.Callable[[], str],
    *,
    check_mode: bool,
    decrypt: t.Callable[[str], str],
    permit: Permit | None = None,
    placeholder: str = "",
) -> str:
    """Return the text of a secret file that may have several lines; the first caller creates it."""
    found = io_secret_file.read(path)
    if found is None:
        if permit:
            permit.check(path, check_mode=check_mode, decrypt=decrypt)
        if check_mode:
            return placeholder
        made = make()
        if io_secret_file.create_once(path, made):
            return made
        found = io_secret_file.read(path) or ""
    if found.startswith(_VAULT):
        return decrypt(str(path))
    if not check_mode and io_secret_file.open_to_others(path):
        io_secret_file.close_to_others(path)
    return found
