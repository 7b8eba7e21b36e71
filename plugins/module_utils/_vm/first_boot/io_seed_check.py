# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses a seed that cloud-init would ignore, by cloud-init's own rules: a VM without users or without a network is found out too late.

Only the format is checked, not whether modules of cloud-init know each key. The YAML of texts is parsed with PyYAML, as in cloud-init. Errors
contain positions and keys, never values or messages of the parser, which can contain parts of a password.
"""

from __future__ import annotations

import contextlib
import email
import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_packages
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init

_JINJA = "## template: jinja"
_ARCHIVE = "#cloud-config-archive"
_CONFIG = "#cloud-config"
#: The beginnings of user-data that cloud-init knows; the last ones are those of cloudbase-init (Windows).
_STARTS = (_CONFIG, "#!", "#include", "#part-handler", "#cloud-boothook", "#ps1", "rem cmd", "<script", "<powershell")
_V2 = {
    "ethernets", "bonds", "bridges", "vlans", "wifis", "modems", "tunnels", "vrfs", "dummy-devices", "virtual-ethernets", "nm-devices", "openvswitch",
}  # fmt: skip
_MACS = ("macaddress", "mac_address")
_HINT = "cloud-init would ignore it. Start it with '#cloud-config', '#!' or another format of cloud-init, or write a mapping instead of text."
_NETWORK_HINT = "Use the format of cloud-init: version: 2 with ethernets, ... below it, or version: 1 with a list named config."


def check(seed: model_cloud_init.CloudInit, path: str) -> None:
    """Check the files of a seed.

    :arg path: path of the VM in the user's input.
    :raises InputError: cloud-init would ignore one of them; with the path of its text or key.
    :raises BackendError: PyYAML, which is required for texts, is missing.
    """
    if seed.user_data.strip():
        _user_data(seed.user_data, f"{path}.user_data")
    if seed.network_config is not None:
        network = _mapping(_load(seed.network_config, f"{path}.network_config"), f"{path}.network_config")
        if network:
            _network(network, f"{path}.network_config")
    _mapping(_load(seed.meta_data, f"{path}.meta_data"), f"{path}.meta_data")


def _user_data(text: str, path: str) -> None:
    if "mime-version:" in text[:4096].lower():
        for part in email.message_from_string(text).walk():
            content = part.get_payload(decode=True)
            if isinstance(content, bytes) and part.get_content_type() in ("text/cloud-config", "text/cloud-config-archive"):
                _config(content.decode("utf-8", "replace"), part.get_content_type().endswith("archive"), path)
        return
    start = text.lstrip().lower()
    if start.startswith(_JINJA):
        # it cannot be parsed before it is rendered, but its own header must follow, or be the result of an expression
        rest = start.partition("\n")[2].lstrip()
        if not rest.lower().startswith((*_STARTS, "{")):
            raise model_errors.InputError("has no format after the line '## template: jinja'.", path, _HINT)
    elif not start.startswith(_STARTS):
        raise model_errors.InputError("has no format in its first line.", path, _HINT)
    elif start.startswith(_CONFIG) and not start.startswith("#cloud-config-jsonp"):
        _config(text, start.startswith(_ARCHIVE), path)


def _config(text: str, archive: bool, path: str) -> None:
    value = _load(text, path)
    if value is not None and not isinstance(value, list if archive else dict):
        raise model_errors.InputError(f"is {model_errors.kind_of(value)}, not {'a list' if archive else 'a mapping'}.", path, _HINT)


def _network(value: dict[str, t.Any], path: str) -> None:
    if isinstance(value.get("network"), dict):
        value, path = value["network"], f"{path}.network"
    if value.get("config") == "disabled":
        return
    version = value.get("version")
    if version not in (1, 2) or isinstance(version, bool):
        raise model_errors.InputError("is missing." if version is None else "is neither 1 nor 2.", f"{path}.version", _NETWORK_HINT)
    _check_macs(value, path)
    if version == 1:
        parts = value.get("config")
        if not isinstance(parts, list) or not all(isinstance(part, dict) and "type" in part for part in parts):
            raise model_errors.InputError("is not a list of mappings with a type.", f"{path}.config", _NETWORK_HINT)
        return
    for key, devices in value.items():
        if key in ("version", "renderer"):
            continue
        if key not in _V2:
            raise model_errors.InputError("is not a known key; the indentation may be lost.", f"{path}.{key}", _NETWORK_HINT)
        for name, device in _mapping(devices, f"{path}.{key}", empty=False).items():
            if key != "openvswitch":
                _mapping(device, f"{path}.{key}.{name}", empty=False)


def _check_macs(value: t.Any, path: str) -> None:
    """Check that MACs are strings: YAML reads one whose parts are decimal numbers up to 59 as one number in the base of 60."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        where = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"
        if key in _MACS and each is not None and not isinstance(each, str):
            raise model_errors.InputError("is a number, not a MAC address.", where, "Write the address in quotes: without them, YAML can read it as a number.")
        _check_macs(each, where)


def _mapping(value: t.Any, path: str, empty: bool = True) -> dict[str, t.Any]:
    if isinstance(value, dict) or value is None and empty:
        return value or {}
    raise model_errors.InputError(f"is {model_errors.kind_of(value)}, not a mapping.", path, _NETWORK_HINT if ".network_config" in path else _HINT)


def _load(text: str, path: str) -> t.Any:
    body = text[len(model_cloud_init.HEADER) :] if text.startswith(model_cloud_init.HEADER) else text
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(body)
        # a mapping of the details; in other JSON, YAML refuses tabs
        if model_cloud_init.to_json(value) == body:
            return value
    try:
        import yaml
    except ImportError as error:
        raise model_packages.missing("yaml") from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """As in cloud-init."""

    Loader.add_constructor("tag:yaml.org,2002:python/unicode", yaml.SafeLoader.construct_yaml_str)
    try:
        return yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        # a line may have been added to the user's metadata
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None and not path.endswith(".meta_data") else ""
        hint = "cloud-init would ignore all of it. Check the indentation there (spaces, no tabs), colons and quotes."
        raise model_errors.InputError(f"is not valid YAML{where}.", path, hint) from None
