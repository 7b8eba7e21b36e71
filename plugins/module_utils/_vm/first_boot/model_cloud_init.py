# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cloud-init data of a VM (NoCloud data source).

The texts often contain passwords and keys: they are excluded from the representation of these objects
and from all errors.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

CLOUD_INIT_KEYS = ("user_data", "network_config", "meta_data")

# volume label of the seed disk
LABEL = "cidata"

# target and bus of the seed disk in a machine: far from those of other disks, and on the bus that every cloud image has a driver for
# (the kernel of Debian's genericcloud images has none for SATA)
SEED_TARGET = "vdz"
SEED_BUS = "virtio"

# folder of the seed in an existing file system
SEED_FOLDER = ("var", "lib", "cloud", "seed", "nocloud")

# the file of a seed with the SSH host key, so that the user-data of any format stays unchanged
VENDOR_DATA = "vendor-data"

# first line of user-data and vendor-data that cloud-init reads as YAML
HEADER = "#cloud-config\n"
_INSTANCE_ID = re.compile(r"(^|[{,]\s*)['\"]?instance-id['\"]?\s*:", re.MULTILINE)
# YAML reads JSON unchanged if these characters are escaped
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_MOST = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class CloudInit:
    """The files of a seed as texts."""

    user_data: str = dataclasses.field(repr=False)
    meta_data: str = dataclasses.field(repr=False)
    network_config: str | None = dataclasses.field(repr=False)
    vendor_data: str | None = dataclasses.field(default=None, repr=False)

    def files(self) -> dict[str, bytes]:
        """File name → content."""
        texts = {"meta-data": self.meta_data, "user-data": self.user_data}
        if self.network_config is not None:
            texts["network-config"] = self.network_config
        if self.vendor_data is not None:
            texts[VENDOR_DATA] = self.vendor_data
        return {name: text.encode("utf-8") for name, text in texts.items()}


def to_json(value: t.Any) -> str:
    """Return plain values as JSON that YAML readers read alike; ``ensure_ascii`` would escape characters in pairs, which they do not join.

    :raises TypeError: an unsupported type, ``ValueError``: not a finite number; the messages never contain text of the value.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n"


def parse_cloud_init(entry: t.Mapping[str, t.Any], path: str, uuid: str, name: str) -> CloudInit | None:
    """Return the seed of a VM, ``None`` if the details contain no cloud-init data.

    :arg entry: the VM's details; ``user_data``, ``network_config`` and ``meta_data`` are each the
        text of the file, or a mapping that is written as JSON, which YAML includes.
    :arg uuid: UUID of the VM, used as the instance id.
    :arg name: name of the VM, used as the host name unless set in ``meta_data``.
    :raises InputError: with the path of the invalid value, never with the value.
    """
    if all(entry.get(key) in (None, "") for key in CLOUD_INIT_KEYS):
        return None
    user_data = entry.get("user_data")
    user_text = _text(user_data, f"{path}.user_data")
    if isinstance(user_data, t.Mapping):
        user_text = HEADER + user_text
    meta = entry.get("meta_data")
    if isinstance(meta, str):
        # text is kept; only the required instance-id is added
        meta_text = meta if _INSTANCE_ID.search(meta) else _with_instance(meta, uuid)
        _text(meta_text, f"{path}.meta_data")
    else:
        meta_text = _text({"instance-id": uuid, "local-hostname": name, **_mapping(meta, f"{path}.meta_data")}, f"{path}.meta_data")
    network = entry.get("network_config")
    return CloudInit(user_text, meta_text, _text(network, f"{path}.network_config") if network not in (None, "") else None)


def default(uuid: str, name: str) -> CloudInit:
    """Return the seed of a VM whose details contain no cloud-init data, without keys."""
    return CloudInit("", _text({"instance-id": uuid, "local-hostname": name}, "meta_data"), None)


def _with_instance(meta: str, uuid: str) -> str:
    before, brace, after = meta.partition("{")
    if brace and not before.strip():
        # JSON, or YAML in flow style
        return f'{{"instance-id": "{uuid}"{"" if after.strip().startswith("}") else ", "}{after}'
    return f'instance-id: "{uuid}"\n{meta}'


def _mapping(value: t.Any, path: str) -> t.Mapping[str, t.Any]:
    if value in (None, ""):
        return {}
    if not isinstance(value, t.Mapping):
        raise model_errors.InputError(f"is {model_errors.kind_of(value)}, not text or a mapping.", path, "Use text or a mapping in the format of cloud-init.")
    return value


def _text(value: t.Any, path: str) -> str:
    if value in (None, ""):
        return ""
    try:
        text = value if isinstance(value, str) else to_json(_mapping(value, path))
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise model_errors.InputError("cannot be encoded as UTF-8.", path, "Remove all characters that are not valid Unicode.") from None
    except (TypeError, ValueError) as error:
        raise model_errors.InputError(f"{error}.", path, "Use mappings, lists, strings, finite numbers and booleans.") from None
    if size > _MOST:
        raise model_errors.InputError(f"is {size} bytes, the limit for a seed is {_MOST}.", path, "Let cloud-init download large files.")
    return text


def without_secrets(vms: t.Any) -> t.Any:
    """Return VM details for output, with the values of the cloud-init keys replaced by a placeholder; also of details that are no valid list."""
    mark = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"
    if isinstance(vms, str):
        return mark if any(key in vms for key in CLOUD_INIT_KEYS) else vms
    if isinstance(vms, t.Mapping):
        # VM details, or a mapping of them, which is refused but shown with the error
        return {key: mark if key in CLOUD_INIT_KEYS and value is not None else _nested(value) for key, value in vms.items()}
    return [without_secrets(vm) for vm in vms] if isinstance(vms, (list, tuple)) else vms


def _nested(value: t.Any) -> t.Any:
    return without_secrets(value) if isinstance(value, (t.Mapping, list, tuple)) else value
