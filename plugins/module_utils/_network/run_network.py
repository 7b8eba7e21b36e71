# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create bonds, VLANs and bridges on a host, with automatic rollback."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_text
from ansible_collections.reduced.footprint.plugins.module_utils._network import io_network, io_trial, model_network, plan_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Change, Layout, Link, Profile, Wanted
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_request import parse

_SHORTEST = 5


@dataclasses.dataclass(frozen=True)
class NetworkRequest:
    """The request of the user, not validated; ``confirm_timeout`` in seconds."""

    bonds: t.Sequence[t.Mapping[str, t.Any]] = ()
    vlans: t.Sequence[t.Mapping[str, t.Any]] = ()
    bridges: t.Sequence[t.Mapping[str, t.Any]] = ()
    state: str = "present"
    confirm_timeout: int = 60


@dataclasses.dataclass
class NetworkResult:
    """The result; ``trial``: the change is waiting for confirmation."""

    changed: bool
    trial: bool
    managers: list[str]
    addresses: dict[str, list[str]]
    diff: list[dict[str, str]]


def bring(request: NetworkRequest, *, check_mode: bool, backend: t.Any = io_network, trial: t.Any = io_trial) -> NetworkResult:
    """Start the change, or confirm a started one; changes nothing if all devices exist."""
    wanted = parse(request.bonds, request.vlans, request.bridges)
    if request.confirm_timeout < _SHORTEST:
        raise InputError(f"{request.confirm_timeout} s is too short for a confirmation.", "confirm_timeout", f"Use at least {_SHORTEST} seconds.")
    if request.state == "confirmed":
        return _confirm(wanted, check_mode, backend, trial)
    links = backend.links()
    pending = trial.pending()
    missing = [entry.name for entry, unused in plan_network.missing(wanted, links)]
    if not missing:
        return NetworkResult(pending, pending, [], _addresses(wanted, links), [])
    if pending:
        raise BackendError(f"another network change is in progress, which does not include {', '.join(missing)}.", hint="Run again in a minute.")
    profiles = _profiles(wanted, links, backend)
    manager = _one_manager(wanted, links, profiles, backend)
    layout = plan_network.layout(wanted, links, profiles)
    for module in plan_network.modules(layout.devices):
        backend.need_module(module, check_mode)
    change = _change(manager, layout, profiles, check_mode, backend)
    diff = [_difference(path, read_text(path) or "", text) for path, text in change.keep.items()]
    diff += [_difference(head, before, after) for head, (before, after) in change.shown.items()]
    if not check_mode:
        trial.start(change, request.confirm_timeout)
        lacking = trial.wait_until_live(layout, request.confirm_timeout / 2)
        if lacking:
            hint = f"Correct the configuration and run again; the old one is restored within {request.confirm_timeout} s."
            raise BackendError(f"the change was applied, but {lacking}.", hint=hint)
        links = backend.links()
    return NetworkResult(True, True, [manager], _addresses(wanted, links, layout), diff)


def _difference(head: str, before: str, after: str) -> dict[str, str]:
    """Return one entry of a diff, passwords masked: these files may contain those of Wi-Fi and 802.1X."""
    before, after = (mask_text(text, head) for text in (before, after))
    return {"before_header": head, "after_header": head, "before": before, "after": after}


def _profiles(wanted: Wanted, links: t.Mapping[str, Link], backend: t.Any) -> dict[str, Profile]:
    """Return the profiles of the links that will be changed; netplan takes precedence over its renderers."""
    names = plan_network.touched(wanted, links)
    profiles = {name: backend.profile_of(links[name]) for name in names}
    texts = backend.netplan_texts()
    if not texts or not names:
        return profiles
    from ansible_collections.reduced.footprint.plugins.module_utils._network import plan_netplan

    documents = backend.netplan_documents(texts)
    for name, profile in profiles.items():
        made = profile.path is not None and "/10-netplan-" in profile.path
        path = plan_netplan.speaks_of(documents, links[name])
        if made or (path and profile.manager in (None, model_network.NETWORKMANAGER)):
            configured = plan_netplan.configured(documents, links[name]) or profile.configured
            profiles[name] = dataclasses.replace(profile, manager=model_network.NETPLAN, path=profile.path or path, configured=configured)
    if any(profile.manager == model_network.NETPLAN for profile in profiles.values()):
        # as renderer of netplan, NetworkManager also manages links without configuration
        spare = [name for name, profile in profiles.items() if profile.manager == model_network.NETWORKMANAGER and not links[name].own]
        profiles.update(dict.fromkeys(spare, Profile(None)))
    return profiles


def _one_manager(wanted: Wanted, links: t.Mapping[str, Link], profiles: t.Mapping[str, Profile], backend: t.Any) -> str:
    """Return the network manager of the change. A link without configuration is assigned to that of the others."""
    by_manager: dict[str, list[str]] = {}
    paths = plan_network.port_paths(wanted, links)
    for name, profile in profiles.items():
        if profile.manager:
            by_manager.setdefault(profile.manager, []).append(name)
        elif links[name].own:
            message = f"{name} has {', '.join(links[name].own)} and no supported network manager."
            hint = f"Create the devices manually and run again, or manage {name} with {_or(model_network.MANAGER_NAMES.values())}."
            raise RefusedError(message, paths[name], hint)
    if len(by_manager) > 1:
        managed = "; ".join(f"{model_network.MANAGER_NAMES[manager]} manages {', '.join(names)}" for manager, names in by_manager.items())
        odd = next(iter(min(by_manager.values(), key=len)))
        raise RefusedError(f"all links of a change must have the same network manager, but {managed}.", paths[odd], "Manage all of them with one manager.")
    manager = next(iter(by_manager), None) or backend.default_manager()
    if manager is None:
        hint = "Create the bridges manually and run again."
        raise RefusedError(f"no supported network manager found ({_or(model_network.MANAGER_NAMES.values())}).", None, hint)
    return manager


def _or(words: t.Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}"


def _change(manager: str, layout: Layout, profiles: t.Mapping[str, Profile], check_mode: bool, backend: t.Any) -> Change:
    # imported on demand: a host has one manager
    # pylint: disable=import-outside-toplevel
    if manager == model_network.NETWORKD:
        from ansible_collections.reduced.footprint.plugins.module_utils._network import plan_networkd

        return plan_networkd.change(layout, profiles)
    if manager == model_network.IFUPDOWN:
        from ansible_collections.reduced.footprint.plugins.module_utils._network import plan_ifupdown

        if not check_mode:
            # in check mode they are not installed yet
            backend.need_files(plan_ifupdown.helpers(layout))
        return plan_ifupdown.change(layout, profiles, backend.interfaces_files())
    if manager == model_network.NETPLAN:
        from ansible_collections.reduced.footprint.plugins.module_utils._network import plan_netplan

        texts = backend.netplan_texts()
        return plan_netplan.change(layout, profiles, backend.netplan_documents(texts), texts, backend.netplan_text)
    return _networkmanager(layout)


def _networkmanager(layout: Layout) -> Change:
    # pylint: disable=import-outside-toplevel
    from ansible_collections.reduced.footprint.plugins.module_utils._network import io_nm, plan_nm

    return plan_nm.change(layout, io_nm.profiles(layout.links, layout.touched))


def _confirm(wanted: Wanted, check_mode: bool, backend: t.Any, trial: t.Any) -> NetworkResult:
    changed = trial.pending()
    if not check_mode:
        changed = trial.confirm()
    links = backend.links()
    missing = [entry.name for entry, unused in plan_network.missing(wanted, links)]
    if missing and not check_mode:
        raise BackendError(
            f"{', '.join(missing)} is missing and no network change is waiting for confirmation.",
            hint="Run state=present again; a reboot of the host during the trial restores the old configuration.",
        )
    return NetworkResult(changed, False, [], _addresses(wanted, links), [])


def _addresses(wanted: Wanted, links: t.Mapping[str, Link], layout: Layout | None = None) -> dict[str, list[str]]:
    """Return the addresses that each requested device has, or takes over."""
    found = {}
    for entry in (*wanted.bonds, *wanted.vlans, *wanted.bridges):
        device = layout.device(entry.name) if layout else None
        source = links.get(entry.name) or (layout.links[device.inherits] if layout and device and device.inherits else None)
        found[entry.name] = list(source.addresses) if source else []
    return found
