# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.comparison import (
    authorized_keys,
    compared,
    known_hosts,
    room_needed,
    sshd_config,
)
from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._plan.differences import differences

Files = list[dict[str, str]]
LAUNCH = "/usr/bin/python3 /deployment/entrypoint.py launch"


def pair_comparison(
    nodes: t.Any, names: t.Sequence[str], clock_skew: float = 60, tolerate: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """What keeps two Sparks from serving as one, and what is worth saying about them."""
    if not isinstance(nodes, t.Sequence) or len(nodes) != 2 or len(names) != 2:
        raise AnsibleFilterError(
            "pair_comparison needs what spark_info returned as pair of two hosts, and their names."
        )
    try:
        return compared(names, nodes, float(clock_skew), tolerate)
    except (KeyError, TypeError) as e:
        raise AnsibleFilterError(f"pair_comparison needs what spark_info returned as pair of two hosts ({e!r}).") from e


def pair_room(
    nodes: t.Any, names: t.Sequence[str], models: t.Mapping[str, t.Any], packed: int = 0, reserve: int = 0
) -> list[str]:
    """What of image and models does not fit on two Sparks."""
    if not isinstance(nodes, t.Sequence) or len(nodes) != 2 or len(names) != 2:
        raise AnsibleFilterError("pair_room needs what spark_info returned as pair of two hosts, and their names.")
    try:
        return room_needed(names, nodes, models, int(packed), int(reserve))
    except (KeyError, TypeError) as e:
        raise AnsibleFilterError(f"pair_room needs what spark_info and huggingface_snapshot returned ({e!r}).") from e


def pair_differences(statuses: t.Any, host: str) -> list[str]:
    """What only shows when two Sparks are looked at together."""
    if not isinstance(statuses, t.Mapping) or not all(
        isinstance(one, (t.Mapping, type(None))) for one in statuses.values()
    ):
        raise AnsibleFilterError(f"pair_differences needs a mapping of hosts to their statuses, not {statuses!r}.")
    return differences(statuses, host)


def of_head(pair: t.Mapping[str, t.Any]) -> Files:
    """What the head has to know of the worker."""
    ports = [int(pair["ssh_port"]), int(pair["copy_port"])]
    return [_file("known_hosts", known_hosts(pair["worker_addresses"], ports, pair["host_key"]))]


def of_worker(pair: t.Mapping[str, t.Any]) -> Files:
    """Whom the container of the worker lets in."""
    return [_file("authorized_keys", authorized_keys(pair["head_addresses"], LAUNCH, pair["client_key"]))]


def of_copies(pair: t.Mapping[str, t.Any]) -> Files:
    """Whom the worker lets in while something is copied, and how."""
    directory, python = pair["directory"], pair.get("python") or "/usr/bin/python3"
    folder = f"{directory}/copy"
    command = f"{python} {folder}/receive.py {folder}/receive.json"
    if any(character.isspace() or character == '"' for character in directory):
        raise ValueError(f"the state directory {directory} must have neither spaces nor quotation marks in its path")
    settings = sshd_config(directory, pair["worker_addresses"], int(pair["copy_port"]), pair["user"])
    return [
        _file("sshd_config", settings),
        _file("authorized_keys", authorized_keys(pair["head_addresses"], command, pair["client_key"])),
    ]


def _file(name: str, content: str) -> dict[str, str]:
    return {"name": name, "content": content, "mode": "0600"}


KINDS = {"head": of_head, "worker": of_worker, "copies": of_copies}


def pair_files(pair: t.Any, kind: str) -> Files:
    """The files that make two Sparks trust each other."""
    if kind not in KINDS or not isinstance(pair, t.Mapping):
        raise AnsibleFilterError(f"pair_files needs what two Sparks share, and one of {', '.join(KINDS)}.")
    try:
        return KINDS[kind](pair)
    except (KeyError, TypeError, ValueError) as e:
        raise AnsibleFilterError(f"Writing what the two Sparks share failed: {e}.") from e


class FilterModule:
    """What is worked out of several Sparks together, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "pair_comparison": pair_comparison,
            "pair_differences": pair_differences,
            "pair_files": pair_files,
            "pair_room": pair_room,
        }
