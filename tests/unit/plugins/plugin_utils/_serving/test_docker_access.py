# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._serving.docker_access import (
    NO_GPU,
    access_plan,
    refusal,
)


def docker(**found: t.Any) -> dict[str, t.Any]:
    return {"state": "usable", "detail": "", "gpu": True, "user": "me", "user_in_group": True, **found}


def test_what_cannot_serve_is_refused_with_a_remedy() -> None:
    gone = docker(state="not_installed", detail="Docker is not installed.", gpu=False)
    assert refusal(gone, True).startswith("Docker is not installed. Install Docker Engine and the NVIDIA container")
    asleep = docker(state="not_running", detail="It does not answer.")
    assert refusal(asleep, False).startswith("It does not answer. Start it with 'sudo systemctl enable --now docker';")
    # That one brings its own.
    assert refusal(docker(state="unsupported", detail="Podman answers."), True) == "Podman answers."


def test_a_gpu_is_needed_to_serve_and_not_to_clean_up() -> None:
    assert refusal(docker(gpu=False), True) == NO_GPU
    assert refusal(docker(gpu=False), False) == ""
    assert refusal(docker(state="denied", gpu=False), True) == NO_GPU
    assert refusal(docker(state="denied"), True) == ""


@pytest.mark.parametrize(
    ("found", "add_to_group", "dry", "joins", "member", "become", "method"),
    [
        (docker(), True, False, "", True, False, "ansible.builtin.sudo"),
        # Let in at the next login, so that sg does it until then.
        (docker(state="denied"), True, False, "", True, True, "dgx_spark.speculative.sg"),
        (docker(state="denied"), False, True, "", True, True, "dgx_spark.speculative.sg"),
        (docker(state="denied", user_in_group=False), True, False, "me", True, True, "dgx_spark.speculative.sg"),
        # A dry run adds nobody, and tells whom it would.
        (docker(state="denied", user_in_group=False), True, True, "me", False, True, "ansible.builtin.sudo"),
        (docker(state="denied", user_in_group=False), False, False, "", False, True, "ansible.builtin.sudo"),
    ],
)
def test_how_it_is_reached(
    found: dict[str, t.Any], add_to_group: bool, dry: bool, joins: str, member: bool, become: bool, method: str
) -> None:
    assert access_plan(found, add_to_group, dry) == {
        "joins": joins,
        "member": member,
        "become": become,
        "become_method": method,
    }
