# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An existing domain and its comparison with the wanted document. Reads only."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain, xml_domain, xml_instance, xml_metadata

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_compare


class Seen:
    """A domain and its documents, each parsed on first use.

    :arg saved_xml: the document of the managed save image of a domain that is off.
    """

    def __init__(self, record: io_domains.DomainRecord, saved_xml: str | None = None) -> None:
        self.record = record
        self.saved_xml = saved_xml

    def resumes(self, saved_xml: str | None) -> None:
        """Set the document of the managed save image, which is read only where needed."""
        self.saved_xml = saved_xml
        # cached without it
        for name in ("live", "live_owned", "live_applied", "noted", "owned", "actual"):
            self.__dict__.pop(name, None)

    @functools.cached_property
    def config(self) -> t.Any:
        """The definition."""
        return xml_domain.parse(self.record.config_xml)

    @functools.cached_property
    def live(self) -> t.Any | None:
        """The running configuration, or that of the managed save image."""
        text = self.record.live_xml or self.saved_xml
        return xml_domain.parse(text) if text else None

    @functools.cached_property
    def owned(self) -> xml_metadata.Ownership | None:
        """The metadata of this collection in the definition."""
        return xml_metadata.read(self.config) if xml_metadata.NAMESPACE in self.record.config_xml else None

    @functools.cached_property
    def live_owned(self) -> xml_metadata.Ownership | None:
        """The metadata of this collection in the running configuration, as of its start."""
        return xml_metadata.read(self.live) if self.live is not None else None

    @functools.cached_property
    def applied(self) -> t.Any | None:
        """The document that was applied last."""
        return revealed(self.owned.applied, self.config)[0] if self.owned and self.owned.applied else None

    @functools.cached_property
    def live_applied(self) -> t.Any | None:
        """The document that was applied when the guest was started."""
        owned = self.live_owned
        if owned is None or not owned.applied:
            return None
        if self.owned and owned.applied == self.owned.applied and not has_password(owned.applied):
            return self.applied
        return revealed(owned.applied, self.live)[0]

    @functools.cached_property
    def noted(self) -> t.Mapping[str, str | None]:
        """The changes that the running guest refused."""
        return xml_metadata.noted_of(self.live) if self.live is not None else {}

    @functools.cached_property
    def instance(self) -> xml_instance.Instance | None:
        """The instance of Nova that it is."""
        return xml_instance.read(self.config) if xml_instance.NAMESPACE in self.record.config_xml else None

    @functools.cached_property
    def restarting(self) -> bool:
        """Whether a run started a restart of it that may not have completed."""
        return xml_metadata.LIVE_NAMESPACE in self.record.config_xml and xml_metadata.is_restarting(self.config)

    @functools.cached_property
    def actual(self) -> plan_domain.Actual:
        """The domain as input for planning."""
        record = self.record
        return plan_domain.Actual(
            record.name,
            record.uuid,
            record.state,
            record.autostart,
            self.owned,
            record.active,
            record.persistent,
            self.saved_xml is not None,
            self.restarting,
            self.instance.text if self.instance else "",
        )

    def compare(self, wanted: t.Any) -> xml_compare.Comparison:
        """Compare the domain with the wanted document."""
        # vm_info reads most domains without comparing them
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_compare

        echo = self.owned.echo if self.owned else None
        return xml_compare.compare(wanted, self.applied, self.config, self.live, self.live_applied, echo)


def has_password(applied: str) -> bool:
    """Whether an applied document has a password, which its stored text omits."""
    return " passwd=" in applied


def revealed(applied: str, source: t.Any) -> tuple[t.Any, list[str]]:
    """Parse a document stored in the metadata, with the current passwords of the domain; returns it and what has no password now."""
    document = xml_domain.parse(applied)
    if not has_password(applied):
        return document, []
    # imported only where there are passwords: each import costs every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import reveal

    return document, reveal(document, source)


class Domains:
    """All domains of a driver, indexed by UUID, metadata and name."""

    def __init__(self, records: t.Iterable[io_domains.DomainRecord]) -> None:
        self._all = [Seen(record) for record in records]
        self._by: dict[tuple[str, ...], list[Seen]] = {}
        for seen in self._all:
            keys = {("uuid", seen.record.uuid), ("name", seen.record.name)}
            if seen.owned is not None:
                keys.add(("mark", seen.owned.cluster, seen.owned.id))
            for key in keys:
                self._by.setdefault(key, []).append(seen)

    def __iter__(self) -> t.Iterator[Seen]:
        return iter(self._all)

    def candidate(self, wanted: plan_domain.Wanted) -> Seen | None:
        """As :func:`_vm.compare.plan_domain.candidate`."""
        near = self._near(wanted)
        return _of(near, plan_domain.candidate(wanted, [seen.actual for seen in near]))

    def find(self, wanted: plan_domain.Wanted, adopt: bool = False) -> Seen | None:
        """As :func:`_vm.compare.plan_domain.find`."""
        near = self._near(wanted)
        return _of(near, plan_domain.find(wanted, [seen.actual for seen in near], adopt))

    def unlisted(self, cluster: str, known: t.Container[str], ids: t.Container[str]) -> t.Iterator[str]:
        """Names of the VMs that were created from a list and are no longer in it.

        :arg known: UUIDs of the listed VMs, ``ids`` their ids: an adopted VM has its own UUID.
        """
        for seen in self._all:
            owned = seen.owned
            if seen.record.uuid not in known and owned and (owned.cluster, owned.origin) == (cluster, xml_metadata.ORIGIN_LIST):
                if not (owned.adopted and owned.id in ids):
                    yield seen.record.name

    def _near(self, wanted: plan_domain.Wanted) -> list[Seen]:
        """The domains that share a key with a VM: comparing every domain with every VM would be quadratic."""
        keys = (("uuid", wanted.uuid), ("mark", wanted.cluster, wanted.id), ("name", wanted.name))
        return [seen for key in keys for seen in self._by.get(key, ())]


def _of(candidates: t.Iterable[Seen], actual: plan_domain.Actual | None) -> Seen | None:
    return next((seen for seen in candidates if seen.actual is actual), None)
