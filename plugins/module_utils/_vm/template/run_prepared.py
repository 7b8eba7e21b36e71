# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rendered VM: its document, and the template and variables it was rendered from."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage, run_steps
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import xml_template


class Prepared(t.NamedTuple):
    """A rendered VM: ``document`` is the parsed domain, ``applied`` its canonical text without passwords, ``steps`` the plan for its storage.

    ``template`` and ``variables`` are kept for messages.
    """

    vm: model_vm.VmDetails
    name: str
    document: t.Any
    applied: str
    volumes: tuple[model_storage.VolumePlan, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    notices: tuple[str, ...]
    steps: run_steps.VolumeSteps | None
    template: xml_template.Template
    variables: t.Mapping[str, t.Any]
