# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Sparks that serve as one: whether they go together, and what lets one into the next."""

from __future__ import annotations

import typing as t
from pathlib import PurePosixPath

from ...module_utils._cluster.cluster_facts import KEY, digest
from ...module_utils._data.text import amount, duration
from ...module_utils._deployment.names import LABEL
from ...module_utils._spark.watched_job import PROGRAM
from .._recipe.text import fraction_words, group_by_value, join_words
from .image_copies import is_copied

# Sparks of one kind differ by what firmware and kernel keep for themselves.
MEMORY_SHARE = 0.05
LAUNCH = "/usr/bin/python3 /deployment/entrypoint.py launch"

Facts = t.Mapping[str, t.Any]
Files = list[dict[str, str]]


class Comparison:
    """Everything that keeps nodes from serving as one, and everything worth saying; looks are in the order of ranks."""

    def __init__(self, looks: t.Mapping[str, Facts], clock_skew: float, tolerate: t.Sequence[str]):
        self.nodes = dict(looks)
        self.head, *self.workers = looks
        self.every = "both" if len(looks) == 2 else "all"
        self.clock_skew = clock_skew
        self.tolerate = tolerate
        self.problems: list[str] = []
        self.findings: list[str] = []

    def groups(self, key: t.Callable[[Facts], t.Any]) -> dict[t.Any, list[str]]:
        """Return the names of those with the same value, by value."""
        result: dict[t.Any, list[str]] = {}
        for name, node in self.nodes.items():
            result.setdefault(key(node), []).append(name)
        return result

    def differ(self, what: str, text: str, remedy: str) -> None:
        """Add a difference that an input can tolerate."""
        if what in self.tolerate:
            self.findings.append(f"{text}.")
        else:
            self.problems.append(f"{text}: {remedy}, or set spark_network_allow_differences: [{what}].")

    def compare(self) -> None:
        self.machines()
        self.memory()
        for worker in self.workers:
            self.clock(worker)
        self.docker()
        for worker in self.workers:
            self.sshd(worker)
            self.ports(worker)
        for name in self.nodes:
            self.slot(name)
        for worker in self.workers:
            self.other_head(worker)
        for node in self.nodes.values():
            self.link(node)

    def machines(self) -> None:
        self.problems += [
            f"{join_words(names)} {'both' if len(names) == 2 else 'all'} have the host name {called}, so logs "
            "could not tell the ranks apart: rename one with 'sudo hostnamectl set-hostname NAME'."
            for called, names in self.groups(lambda node: node["hostname"]).items()
            if len(names) > 1
        ]
        kinds = self.groups(lambda node: node["architecture"])
        if len(kinds) > 1:
            each = [f"{join_words(names)} of type {kind}" for kind, names in kinds.items()]
            is_one = "is a machine" if len(kinds[self.nodes[self.head]["architecture"]]) == 1 else "are machines"
            self.problems.append(
                f"{join_words([each[0].replace(' of type', f' {is_one} of type', 1), *each[1:]])}: one image cannot "
                f"run on {self.every}, so serve on one of them."
            )
        drivers = self.groups(lambda node: ", ".join(node["drivers"]) or "missing")
        if len(drivers) > 1:
            each = [f"{driver} on {join_words(names)}" for driver, names in drivers.items()]
            self.differ(
                "driver",
                f"the GPU driver is {join_words(each)}, with which one of them may wait for the other"
                f"{'' if len(self.nodes) == 2 else 's'}",
                f"bring {self.every} to the same with 'sudo apt update' and 'sudo apt full-upgrade', and restart them",
            )

    def memory(self) -> None:
        sizes = {name: node["memory_total"] for name, node in self.nodes.items()}
        if max(sizes.values()) - min(sizes.values()) <= MEMORY_SHARE * max(sizes.values()):
            return
        each = [amount(size) for size in sizes.values()]
        has = group_by_value(zip(sizes, each)).replace(each[0], f"{each[0]} of memory", 1)
        self.differ(
            "memory",
            f"{has}, but each holds {fraction_words(len(sizes))} of the model",
            f"use {'two ' if len(sizes) == 2 else ''}Sparks of the same kind",
        )

    def clock(self, worker: str) -> None:
        ours, theirs = self.nodes[self.head]["clock_offset"], self.nodes[worker]["clock_offset"]
        if ours is None or theirs is None or abs(ours - theirs) <= self.clock_skew:
            return
        # Compared with the clock of the controller.
        wrong = self.head if abs(ours) > abs(theirs) else worker
        self.differ(
            "clock",
            f"the clock of {worker} is {duration(abs(theirs - ours))} {'ahead of' if theirs > ours else 'behind'} "
            f"that of {self.head}, so certificates fail and logs mislead",
            f"set the wrong clock with 'sudo timedatectl set-ntp true' (by the controller's clock, that of {wrong})",
        )

    def docker(self) -> None:
        versions = {name: node["docker"]["version"] for name, node in self.nodes.items()}
        for name, node in self.nodes.items():
            if node["docker"]["state"] != "usable":
                self.problems.append(f"Docker on {name} cannot be used: {node['docker']['detail']}")
        if None not in versions.values() and len(set(versions.values())) > 1:
            has = group_by_value(versions.items()).replace(
                f" {versions[self.head]}", f" Docker {versions[self.head]}", 1
            )
            self.findings.append(f"{has}. That works, but the same version on {self.every} is easier to maintain.")

    def sshd(self, worker: str) -> None:
        if not self.nodes[worker]["sshd"]:
            self.problems.append(
                f"{worker} has no sshd, which it needs to receive image and models: install it there with "
                "'sudo apt-get install openssh-server'."
            )

    def ports(self, worker: str) -> None:
        for port in self.nodes[worker]["ports"]:
            if port["in_use"] and not port["ours"]:
                other = f" {port['description']}." if port["description"] else ""
                self.problems.append(
                    f"port {port['port']} on {port['address']} of {worker} is in use by {port['holder']}.{other} "
                    f"Choose another port with {port['input']}, or stop it."
                )

    def slot(self, name: str) -> None:
        slot = self.nodes[name]["slot"]
        directory = ((slot or {}).get("labels") or {}).get(f"{LABEL}directory")
        state = self.nodes[name]["state_directory"]
        if not directory or str(PurePosixPath(directory).parent) == state:
            return
        deployment = slot["labels"].get(f"{LABEL}deployment")
        text = f"the serving slot of {name} holds the deployment {deployment} of another user (its files: {directory})"
        if slot["state"] == "running":
            self.problems.append(
                f"{text}: let that user stop it with stop.yml, or stop it with 'docker stop {slot['name']}'."
            )
        else:
            self.findings.append(f"{text}. It does not run and is replaced.")

    def other_head(self, worker: str) -> None:
        """Check that the worker does not serve for another head."""
        slot, authorized = self.nodes[worker]["slot"], self.nodes[worker]["authorized"]
        own = self.nodes[self.head]["client_key"]
        if not slot or slot["state"] != "running" or not authorized or authorized["key"] == own:
            return
        if (slot["labels"] or {}).get(f"{LABEL}rank", "0") == "0":
            return
        text = f"{worker} is the worker of another head, which connects from {', '.join(authorized['from'])}"
        if own:
            self.problems.append(f"{text}: stop that deployment with stop.yml first.")
        else:
            self.findings.append(f"{text}. That deployment is replaced.")

    def link(self, node: Facts) -> None:
        if node["proof"] and node["proof"]["error"]:
            self.problems.append(node["proof"]["error"])


def compare_nodes(
    facts: t.Mapping[str, Facts], clock_skew: float, allow_differences: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """Return the problems and the findings about the nodes, a sentence each, and whether all have the head's image."""
    comparison = Comparison(facts, clock_skew, allow_differences)
    comparison.compare()
    head, *workers = facts.values()
    problems = comparison.problems
    told = problems[0] if len(problems) == 1 else "".join(f"\n- {problem}" for problem in problems)
    return {
        "refusal": f"{join_words(facts)} cannot serve as one: {told}" if problems else "",
        "problems": problems,
        "findings": comparison.findings,
        "image_copied": all(is_copied(head, worker) for worker in workers),
    }


def node_links(
    host: str,
    facts: t.Mapping[str, Facts],
    rails: t.Mapping[str, t.Sequence[Facts]],
    is_configured: bool,
    worker_port: int,
    copy_port: int,
) -> dict[str, t.Any]:
    """Return the verified rails, their findings, and the completed steps.

    The steps are `link`, if the link is as planned and verified, and `ssh_keys`, if the key files are current."""
    proof = facts[host]["proof"] or {"rails": rails[host], "findings": [], "error": "It was not verified."}
    is_known = keys_are_current(host, facts, rails, worker_port, copy_port)
    completed_steps = {"link": is_configured and not proof["error"], "ssh_keys": is_known}
    findings = [f"{host}: {finding}" for finding in proof["findings"]]
    return {
        "rails": proof["rails"],
        "findings": findings,
        "completed_steps": [step for step, nothing in completed_steps.items() if nothing],
    }


# SSH keys and their files.


def public_key(text: str) -> str:
    """Return a public key without its comment."""
    match = KEY.match(text.strip())
    if not match:
        raise ValueError(f"'{text[:60]}' is not an ed25519 public key")
    return match[0]


def known_hosts(addresses: t.Iterable[str], ports: t.Sequence[int], key: str) -> str:
    """Return the only host key that the head accepts, for each address and port."""
    return "".join(f"[{address}]:{port} {public_key(key)}\n" for address in addresses for port in ports)


def authorized_keys(addresses: t.Sequence[str], command: str, key: str) -> str:
    """Return a line with one key that is valid for one command, from the peer's addresses only."""
    if '"' in command or not addresses:
        raise ValueError("a forced command has no quotation marks, and a key is valid from somewhere")
    return f'restrict,from="{",".join(addresses)}",command="{command}" {public_key(key)}\n'


def sshd_config(directory: str, addresses: t.Iterable[str], port: int, user: str) -> str:
    """Return the settings of the sshd that the login user runs during a copy."""
    listen = "".join(f"ListenAddress {f'[{address}]' if ':' in address else address}:{port}\n" for address in addresses)
    return f"""# Written by dgx_spark.speculative; lost when it is written again.
{listen}HostKey {directory}/ssh_host_ed25519_key
HostKeyAlgorithms ssh-ed25519
PidFile none
UsePAM no
UseDNS no
LogLevel INFO
# Its directory is the login user's own and closed to others, whatever the mode of those above.
StrictModes no
AllowUsers {user}
AuthenticationMethods publickey
PubkeyAuthentication yes
AuthorizedKeysFile {directory}/copy/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
DisableForwarding yes
PermitTTY no
PermitTunnel no
PermitUserEnvironment no
PermitUserRC no
PrintMotd no
PrintLastLog no
Compression no
Ciphers aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com
IPQoS throughput
MaxSessions 1
MaxStartups 64
LoginGraceTime 20
ClientAliveInterval 5
ClientAliveCountMax 3
"""


def _file(name: str, content: str) -> dict[str, str]:
    return {"name": name, "content": content, "mode": "0600"}


def _known(nodes: t.Sequence[Facts], rank: int, worker_port: int, copy_port: int) -> str:
    """Return the host keys of the later ranks: the head starts them, and copies go to the next one."""
    return "".join(
        known_hosts(node["addresses"], [*([] if rank else [worker_port]), *([] if later else [copy_port])], node["key"])
        for later, node in enumerate(nodes[rank + 1 :])
    )


def _trusted(nodes: t.Sequence[Facts], rank: int, worker_port: int, copy_port: int) -> Files:
    """Return the permanent files: the hosts that a node connects to, and the head's key."""
    known = _known(nodes, rank, worker_port, copy_port)
    files = [_file("known_hosts", known)] if known else []
    if rank:
        files.append(_file("authorized_keys", authorized_keys(nodes[0]["addresses"], LAUNCH, nodes[0]["key"])))
    return files


def keys_are_current(
    host: str,
    facts: t.Mapping[str, Facts],
    rails: t.Mapping[str, t.Sequence[Facts]],
    worker_port: int,
    copy_port: int,
) -> bool:
    """Return whether a node has its own key and the current keys of the other nodes."""
    own = facts[host]
    if not own["has_directory"] or own["key_is_open"] or not all(look["key"] for look in facts.values()):
        return False
    nodes = [
        {"addresses": [rail["address"] for rail in rails[name]], "key": look["key"]} for name, look in facts.items()
    ]
    return bool(digest(_trusted(nodes, list(facts).index(host), worker_port, copy_port)) == own["trusted"])


def key_exchange(
    rails: t.Mapping[str, t.Sequence[Facts]],
    facts: t.Mapping[str, Facts],
    keys: t.Mapping[str, Facts],
    users: t.Mapping[str, str],
    pythons: t.Mapping[str, str],
) -> dict[str, Facts]:
    """Return by host the keys that each node gives the others. In check mode, a missing key has a placeholder."""
    result: dict[str, Facts] = {
        host: {
            "addresses": [rail["address"] for rail in own],
            "key": keys[host].get("public_key") or facts[host]["key"] or "ssh-ed25519 AAAA",
            "user": users[host],
            "python": pythons[host] or "/usr/bin/python3",
        }
        for host, own in rails.items()
    }
    if not all(each["user"] for each in result.values()):
        raise KeyError("user_id")
    return result


def trust(
    hosts: t.Mapping[str, Facts],
    host: str,
    directory: str,
    worker_port: int,
    copy_port: int,
    key: str,
    streams: int,
    patience: int,
) -> dict[str, t.Any]:
    """Return the keys, hosts and ports of the other nodes that a node needs, in the order of the ranks.

    Each node has its `addresses` on the link, the public half of its one `key`, and `user` and `python`, with which it
    receives copies. The head's key opens the containers of all workers. Copies go in a chain: a node accepts the one
    before it, and the same key opens the next. Each key is valid for one command, and from its owner's addresses only.
    """
    nodes, rank = list(hosts.values()), list(hosts).index(host)
    files = _trusted(nodes, rank, worker_port, copy_port)
    copies = _copies(nodes[rank - 1], nodes[rank], directory, copy_port) if rank else []
    way: dict[str, t.Any] = {}
    for name in list(hosts)[rank + 1 :][:1]:
        way = {"worker": name, "user": hosts[name]["user"], "addresses": hosts[name]["addresses"], "port": copy_port}
        way |= {"key": key, "known_hosts": f"{directory}/known_hosts", "streams": streams, "patience": patience}
    told = {"files": files, "sha256": digest(files), "copies": copies, "connection": way}
    return {**told, "public_key": hosts[host]["key"]}


def _copies(before: Facts, node: Facts, directory: str, port: int) -> Files:
    """Return the files that let the previous rank send copies to a node."""
    # The program of the job that receives copies.
    program = PurePosixPath(directory).parent / "jobs/copies" / PROGRAM
    command = f"{node['python']} {program} receive {directory}/copy/receive.json"
    if any(character.isspace() or character == '"' for character in directory):
        raise ValueError(f"the state directory {directory} must have neither spaces nor quotation marks in its path")
    return [
        _file("sshd_config", sshd_config(directory, node["addresses"], port, node["user"])),
        _file("authorized_keys", authorized_keys(before["addresses"], command, before["key"])),
    ]
