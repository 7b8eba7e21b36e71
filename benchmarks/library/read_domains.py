# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A minimal module that reads both documents of every domain and compares nothing: the lower bound for such a module."""

from __future__ import annotations

import libvirt
from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Read twice, count."""
    module = AnsibleModule(argument_spec={"uri": {"type": "str", "required": True}}, supports_check_mode=True)
    connection = libvirt.open(module.params["uri"])
    size = 0
    for domain in connection.listAllDomains(0):
        size += len(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        if domain.isActive():
            size += len(domain.XMLDesc(0))
    module.exit_json(changed=False, size=size)


if __name__ == "__main__":
    main()
