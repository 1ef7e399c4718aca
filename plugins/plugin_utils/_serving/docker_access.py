# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Check whether the Docker of a Spark can serve a model, and decide how tasks reach it."""

from __future__ import annotations

import typing as t

SG, SUDO = "dgx_spark.speculative.sg", "ansible.builtin.sudo"
UNDER_SUDO = (
    "This playbook was started with sudo, so models and deployment would belong to root. Run it as yourself; where a "
    "step needs sudo it says so (-K asks for the password)."
)
REMEDIES = {
    "not_installed": (
        "Install Docker Engine and the NVIDIA container toolkit ('sudo apt-get install docker.io "
        "nvidia-container-toolkit')."
    ),
    "not_running": (
        "Start it with 'sudo systemctl enable --now docker'; if it stops again, 'journalctl -u docker' says why."
    ),
}
NO_GPU = (
    "Docker cannot give the GPU to a container. Install the NVIDIA container toolkit ('sudo apt-get install "
    "nvidia-container-toolkit'), then run 'sudo nvidia-ctk runtime configure --runtime=docker' and 'sudo systemctl "
    "restart docker'."
)


def refusal(docker: t.Mapping[str, t.Any], need_gpu: bool) -> str:
    """Return why Docker cannot be used; empty if it can, at least by a user with access."""
    if docker["state"] not in ("usable", "denied"):
        return f"{docker['detail']} {REMEDIES.get(docker['state'], '')}".strip()
    return NO_GPU if need_gpu and not docker["gpu"] else ""


def access_plan(docker: t.Mapping[str, t.Any], add_to_group: bool, dry: bool) -> dict[str, t.Any]:
    """Return how to access Docker. A dry run adds no user to the group.

    `joins` is the user to add to the group docker, or empty, and `member` whether the user is in it by then. `become`
    and its method are for the tasks that use Docker.

    A new member's open session does not have the group yet. sg reads the group database, so that it works at once and
    without a password.
    """
    member = docker["user_in_group"] or (add_to_group and not dry)
    return {
        "joins": docker["user"] if add_to_group and not docker["user_in_group"] else "",
        "member": member,
        "become": docker["state"] == "denied",
        "become_method": SG if docker["state"] == "denied" and member else SUDO,
    }
