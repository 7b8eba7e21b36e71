# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the status in files of the control node."""

from __future__ import annotations

import json
import os
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_html import status_html
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError


def write(given: t.Mapping[str, t.Any], report: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Write the files, relative to the directory of the caller, and yield a text with the path of each.

    :arg given: ``html_file``, ``json_file``, which may be empty, and ``title`` of the page.
    :arg report: of :func:`plan_status.build_status`.
    """
    page = status_html(report, given["title"], time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))
    data = f"{json.dumps(report, indent=4, sort_keys=True)}\n"
    for name, variable, text, words in (("html_file", "status_html_file", page, "page"), ("json_file", "status_report_file", data, "report")):
        if given[name]:
            path = os.path.realpath(given[name])
            try:
                write_atomic(path, text, 0o644)
            except OSError as error:
                message = f"cannot write {path}: {error.strerror or error}."
                raise InputError(message, variable, "Use the path of a file that can be written.") from error
            yield f"The {words} is in {path}."
