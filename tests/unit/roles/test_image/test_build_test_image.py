# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel of the test image; tests/cloud boots the image that the script builds."""

from __future__ import annotations

import typing as t

from tests.support.program import load


def program() -> t.Any:
    return load("roles/test_image/files/build_test_image.py")


def test_kernel_is_not_taken_for_a_disk() -> None:
    """A kernel with a boot signature, one without, and nothing else is changed."""
    kernel = bytes(range(256)) * 4
    signed = kernel[:510] + b"\x55\xaa" + kernel[512:]
    assert program().without_boot_signature(signed) == kernel[:510] + bytes(2) + kernel[512:]
    assert program().without_boot_signature(kernel) == kernel
