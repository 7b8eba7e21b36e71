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

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init

_JINJA, _CONFIG = "## template: jinja", "#cloud-config"
#: The beginnings of user-data that cloud-init knows; the last ones are those of cloudbase-init (Windows).
_STARTS = (_CONFIG, "#!", "#include", "#part-handler", "#cloud-boothook", "#ps1", "rem cmd", "<script", "<powershell")
_V2 = ("ethernets bonds bridges vlans wifis modems tunnels vrfs dummy-devices virtual-ethernets nm-devices openvswitch version renderer").split()
_HINT = "cloud-init would ignore it. Start it with '#cloud-config', '#!' or another format of cloud-init, or write a mapping instead of text."
_NETWORK_HINT = "Use the format of cloud-init: version: 2 with ethernets, ... below it, or version: 1 with a list named config."


def check(seed: model_cloud_init.CloudInit, path: str) -> None:
    """Check the files of a seed.

    :raises InputError: cloud-init would ignore one of them; with the path of its text or key.
    """
    if seed.user_data.strip():
        _user_data(seed.user_data, f"{path}.user_data")
    network = _mapping(_load(seed.network_config, f"{path}.network_config"), f"{path}.network_config", _NETWORK_HINT)
    if network:
        _network(network, f"{path}.network_config")
    _mapping(_load(seed.meta_data, f"{path}.meta_data"), f"{path}.meta_data", _HINT)


def _user_data(text: str, path: str) -> None:
    start = text.lstrip().lower()
    if "mime-version:" in text[:4096].lower():
        parts = ((part.get_content_type(), part.get_payload(decode=True)) for part in email.message_from_string(text).walk())
        configs = [content.decode("utf-8", "replace") for kind, content in parts if kind == "text/cloud-config" and isinstance(content, bytes)]
    elif start.startswith(_JINJA):
        # it cannot be parsed before it is rendered, but its own header must follow, or be the result of an expression
        if not start.partition("\n")[2].lstrip().startswith((*_STARTS, "{")):
            raise model_errors.InputError("has no format after the line '## template: jinja'.", path, _HINT)
        return
    elif not start.startswith(_STARTS):
        raise model_errors.InputError("has no format in its first line.", path, _HINT)
    else:
        configs = [text] if start.startswith(_CONFIG) and not start.startswith((f"{_CONFIG}-archive", f"{_CONFIG}-jsonp")) else []
    for config in configs:
        _mapping(_load(config, path), path, _HINT)


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
        if key not in _V2:
            raise model_errors.InputError("is not a known key; the indentation may be lost.", f"{path}.{key}", _NETWORK_HINT)
        if key not in ("version", "renderer", "openvswitch"):
            for name, device in _mapping(devices, f"{path}.{key}", _NETWORK_HINT, empty=False).items():
                _mapping(device, f"{path}.{key}.{name}", _NETWORK_HINT, empty=False)


def _check_macs(value: t.Any, path: str) -> None:
    """Check that MACs are strings: YAML reads one whose parts are decimal numbers up to 59 as one number in the base of 60."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        where = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"
        if key in ("macaddress", "mac_address") and each is not None and not isinstance(each, str):
            raise model_errors.InputError("is a number, not a MAC address.", where, "Write the address in quotes: without them, YAML can read it as a number.")
        _check_macs(each, where)


def _mapping(value: t.Any, path: str, hint: str, empty: bool = True) -> dict[str, t.Any]:
    if isinstance(value, dict) or value is None and empty:
        return value or {}
    raise model_errors.InputError(f"is {model_errors.kind_of(value)}, not a mapping.", path, hint)


def _load(text: str | None, path: str) -> t.Any:
    if text is None:
        return None
    body = text[len(model_cloud_init.HEADER) :] if text.startswith(model_cloud_init.HEADER) else text
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(body)
        # a mapping of the details; in other JSON, YAML refuses tabs
        if model_cloud_init.to_json(value) == body:
            return value
    try:
        import yaml
    except ImportError as error:
        raise model_errors.missing_libraries("yaml") from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        # a line may have been added to the user's metadata
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None and not path.endswith(".meta_data") else ""
        hint = "cloud-init would ignore all of it. Check the indentation there (spaces, no tabs), colons and quotes."
        raise model_errors.InputError(f"is not valid YAML{where}.", path, hint) from None
