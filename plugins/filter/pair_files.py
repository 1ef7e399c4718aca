# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.comparison import (
    authorized_keys,
    known_hosts,
    sshd_config,
)

Files = list[dict[str, str]]
LAUNCH = "/usr/bin/python3 /deployment/entrypoint.py launch"


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
    """The filter, for Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pair_files": pair_files}
