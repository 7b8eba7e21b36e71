# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: a secret that is generated once, into a file the operator owns."""

from __future__ import annotations

import pathlib
import random
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_secret_file
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import DIRECTORY, Recipe, environment_name, secret_name

# Ansible reads every file below a directory that is its inventory, and takes a strange line for the name of a host. It skips
# files that end in .txt.
_SUFFIX = ".txt"
_VAULT = "$ANSIBLE_VAULT;"


def secrets_directory(given: t.Any, inventory_dir: t.Any, environment: t.Any) -> pathlib.Path:
    """Where the secrets of an environment stand.

    :arg given: where the operator wants them, empty for beside the inventory.
    :raises InputError: nobody knows where.
    """
    name = environment_name(environment)
    if given:
        path = pathlib.Path(str(given)).expanduser()
        if not path.is_absolute():
            raise InputError(f"{str(given)!r} is no absolute path.", "footprint_secrets", 'Write e.g. "{{ inventory_dir }}/secrets".')
        return path
    if not inventory_dir:
        raise InputError("is not set, and there is no inventory file beside which secrets could be kept.", "footprint_secrets", "Name a directory.")
    return pathlib.Path(str(inventory_dir)) / DIRECTORY / name


def secret(
    name: t.Any,
    directory: pathlib.Path,
    recipe: Recipe,
    *,
    check_mode: bool,
    decrypt: t.Callable[[str], str],
) -> str:
    """The secret of a name; the first one who asks makes it.

    :arg decrypt: reads the file at a path that Ansible vault encrypted.
    :arg check_mode: write nothing. A secret that is still missing has a stand-in, the same for all who ask, that fits the recipe.
        It is no secret, since it follows from its name.
    """
    path = directory / f"{secret_name(name)}{_SUFFIX}"
    found = io_secret_file.read(path)
    if found is None:
        if check_mode:
            return recipe.make(random.Random(f"only for check mode: {path}"))
        value = recipe.make(random.SystemRandom())
        if io_secret_file.create_once(path, value):
            return value
        found = io_secret_file.read(path)
    if found and found.startswith(_VAULT):
        found = decrypt(str(path)).rstrip("\r\n")
    elif found and not check_mode and io_secret_file.open_to_others(path):
        io_secret_file.close_to_others(path)
    if not found or "\n" in found:
        raise InputError("must be one line of text.", str(path), "Write the secret into it, or remove it to get a new one.")
    return found


def kept(path: pathlib.Path, make: t.Callable[[], str], *, check_mode: bool, decrypt: t.Callable[[str], str]) -> str:
    """The text of a secret file that may have several lines; the first caller makes it.

    :arg make: a new text.
    :arg check_mode: write nothing; what is missing is empty.
    :arg decrypt: reads the file at a path that Ansible vault encrypted.
    :raises BackendError: it cannot be read or written.
    """
    found = io_secret_file.read(path)
    if found is None:
        if check_mode:
            return ""
        made = make()
        if io_secret_file.create_once(path, made):
            return made
        found = io_secret_file.read(path) or ""
    if found.startswith(_VAULT):
        return decrypt(str(path))
    if not check_mode and io_secret_file.open_to_others(path):
        io_secret_file.close_to_others(path)
    return found
