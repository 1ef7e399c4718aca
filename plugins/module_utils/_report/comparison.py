# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Two Sparks that serve as one: whether they go together, what they share, and whether there is room for it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import typing as t
from pathlib import PurePosixPath

from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.image_store import (
    CONTAINERD,
    UNPACKED,
    sizes,
)

LABEL = "dgx_spark.speculative."
# The image from which the pair's was made; another one means that it has to be made anew.
BASE_LABEL = f"{LABEL}base"
REPOSITORY = "dgx-spark-speculative/release"
KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]+={0,2}")
# Sparks of one kind differ by what firmware and kernel keep for themselves.
MEMORY_SHARE = 0.05
# What openssh-server and what it needs take, and more.
ADDED_BYTES = 300_000_000
# What of an image's configuration decides how a container of it runs. What else there is differs between releases of
# Docker.
CONFIG_KEYS = (
    "Cmd",
    "Entrypoint",
    "Env",
    "ExposedPorts",
    "Healthcheck",
    "Labels",
    "Shell",
    "StopSignal",
    "User",
    "Volumes",
    "WorkingDir",
)

Facts = t.Mapping[str, t.Any]


def pair_image(base: str) -> str:
    """The local name of the image that is made from another one for two Sparks."""
    name, _at, digest = base.partition("@")
    _repository, _colon, tag = name.rpartition("/")[2].partition(":")
    return f"{REPOSITORY}:{tag or (digest.replace(':', '-')[:19] if digest else 'latest')}"


def fingerprint(inspected: Facts) -> str:
    """What is the same for the same image in every Docker. Its ID is not: it depends on how Docker stores images."""
    config = inspected.get("Config") or {}
    kept = {key: config.get(key) for key in CONFIG_KEYS if config.get(key)}
    layers = (inspected.get("RootFS") or {}).get("Layers") or []
    parts = [inspected.get("Os"), inspected.get("Architecture"), inspected.get("Variant") or "", layers, kept]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def image_facts(inspected: Facts | None) -> dict[str, t.Any] | None:
    """An image in few words."""
    if inspected is None:
        return None
    labels = (inspected.get("Config") or {}).get("Labels") or {}
    return {
        "id": inspected.get("Id"),
        "fingerprint": fingerprint(inspected),
        "bytes": inspected.get("Size") or 0,
        "base": labels.get(BASE_LABEL),
    }


def is_made(facts: Facts) -> bool:
    """Whether the pair's image is there and made from the base that is there."""
    base, made = facts["images"]["base"], facts["images"]["pair"]
    return bool(base and made and made["base"] == base["fingerprint"])


def is_copied(head: Facts, worker: Facts) -> bool:
    """Whether the worker has the very image of the head."""
    here, there = head["images"]["pair"], worker["images"]["pair"]
    return bool(is_made(head) and there and here["fingerprint"] == there["fingerprint"])


# What the two share: keys, and who is let in.


def public_key(text: str) -> str:
    """A public key without its comment."""
    found = KEY.match(text.strip())
    if not found:
        raise ValueError(f"'{text[:60]}' is not the public half of an ed25519 key")
    return found[0]


ARMOUR = re.compile(r"-----BEGIN OPENSSH PRIVATE KEY-----\s(.+)\s-----END OPENSSH PRIVATE KEY-----\s*", re.DOTALL)
MAGIC = b"openssh-key-v1\0"


def _fields(data: bytes) -> t.Iterator[bytes]:
    """The strings in OpenSSH's binary formats: each has its length before it."""
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        if len(data) < end:
            raise ValueError("cut off")
        yield data[4:end]
        data = data[end:]


def whole_key(private: str, public: str) -> str | None:
    """The public half of an ed25519 key pair of which both files are whole and belong together, without a passphrase.

    OpenSSH's PROTOCOL.key: cipher, derivation and its options as strings, the number of keys, then the public and the
    private part as strings; in the latter two equal numbers precede the key's type, its public and its secret half.
    """
    named, body = KEY.match(public.strip()), ARMOUR.fullmatch(private.strip() + "\n")
    if not named or not body:
        return None
    try:
        data = base64.b64decode("".join(body[1].split()), validate=True)
        wanted = base64.b64decode(named[0].split()[1], validate=True)
        cipher, derivation, choices = itertools.islice(_fields(data.removeprefix(MAGIC)), 3)
        length = len(MAGIC) + 12 + len(cipher) + len(derivation) + len(choices) + 4
        known, secret = _fields(data[length:])
        kind, half, both = itertools.islice(_fields(secret[8:]), 3)
    except ValueError:
        return None
    whole = known == wanted and secret[:4] == secret[4:8] and kind == b"ssh-ed25519" and both.endswith(half)
    return named[0] if whole and cipher == b"none" and len(both) == 64 and known.endswith(half) else None


def known_hosts(addresses: t.Iterable[str], ports: t.Sequence[int], key: str) -> str:
    """The only host key that the head accepts, for every place where it meets it."""
    return "".join(f"[{address}]:{port} {public_key(key)}\n" for address in addresses for port in ports)


def authorized_keys(addresses: t.Sequence[str], command: str, key: str) -> str:
    """One key, from the other Spark's end of the link only, for one command only."""
    if '"' in command or not addresses:
        raise ValueError("a forced command has no quotation marks, and a key is valid from somewhere")
    return f'restrict,from="{",".join(addresses)}",command="{command}" {public_key(key)}\n'


def sshd_config(directory: str, addresses: t.Iterable[str], port: int, user: str) -> str:
    """The settings of the host's sshd, run as the login user while something is copied."""
    listen = "".join(f"ListenAddress {f'[{one}]' if ':' in one else one}:{port}\n" for one in addresses)
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


# Whether the two go together.


def clock_text(seconds: float) -> str:
    seconds = abs(seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"


class Comparison:
    """Everything that keeps two nodes from serving as one, and everything worth saying."""

    def __init__(self, names: t.Sequence[str], nodes: t.Sequence[Facts], clock_skew: float, tolerate: t.Sequence[str]):
        self.head, self.worker = names
        self.nodes = dict(zip(names, nodes))
        self.clock_skew = clock_skew
        self.tolerate = tolerate
        self.problems: list[str] = []
        self.findings: list[str] = []

    def both(self, key: str) -> tuple[t.Any, t.Any]:
        return self.nodes[self.head][key], self.nodes[self.worker][key]

    def differ(self, what: str, text: str, remedy: str) -> None:
        """A difference that whoever knows better can tolerate."""
        if what in self.tolerate:
            self.findings.append(f"{text}.")
        else:
            self.problems.append(f"{text}: {remedy}, or set spark_network_tolerate: [{what}].")

    def compare(self) -> None:
        if self.same_machine():
            return
        self.machines()
        self.clocks()
        self.docker()
        self.sshd()
        self.ports()
        for name in (self.head, self.worker):
            self.slot(name)
        self.other_head()

    def same_machine(self) -> bool:
        head, worker = self.both("mac_addresses")
        if not head or sorted(head) != sorted(worker):
            return False
        self.problems.append(
            f"{self.head} and {self.worker} lead to the same machine: correct ansible_host of one of them in the "
            "inventory."
        )
        return True

    def machines(self) -> None:
        head, worker = self.both("hostname")
        if head == worker:
            self.problems.append(
                f"{self.head} and {self.worker} both call themselves {head}, so nobody could tell which rank runs "
                "where: rename one with 'sudo hostnamectl set-hostname NAME'."
            )
        head, worker = self.both("architecture")
        if head != worker:
            self.problems.append(
                f"{self.head} is a machine of type {head} and {self.worker} of type {worker}: one image cannot run on "
                "both, so serve on one of them."
            )
        head, worker = self.both("drivers")
        if head != worker:
            self.differ(
                "driver",
                f"the GPU's driver is {', '.join(head) or 'missing'} on {self.head} and "
                f"{', '.join(worker) or 'missing'} on {self.worker}, with which one of them may wait for the other",
                "bring both to the same with 'sudo apt update' and 'sudo apt full-upgrade', and restart them",
            )
        head, worker = self.both("memory_total")
        if abs(head - worker) > MEMORY_SHARE * max(head, worker):
            self.differ(
                "memory",
                f"{self.head} has {head / 2**30:.1f} GiB of memory and {self.worker} has {worker / 2**30:.1f} GiB, but "
                "each holds half of the model",
                "use two Sparks of the same kind",
            )

    def clocks(self) -> None:
        head, worker = self.both("clock_offset")
        if head is None or worker is None or abs(head - worker) <= self.clock_skew:
            return
        self.differ(
            "clock",
            f"the clock of {self.worker} is {clock_text(worker - head)} {'ahead of' if worker > head else 'behind'} "
            f"that of {self.head}, so that certificates fail and logs mislead",
            f"set the clock of the one that is wrong with 'sudo timedatectl set-ntp true' ({self.off(head, worker)})",
        )

    def off(self, head: float, worker: float) -> str:
        """Which one it is, by the clock of the machine where Ansible runs."""
        wrong = self.head if abs(head) > abs(worker) else self.worker
        return f"by the clock here it is {wrong}'s"

    def docker(self) -> None:
        versions = [node["docker"]["version"] for node in self.nodes.values()]
        for name, node in self.nodes.items():
            if node["docker"]["state"] != "usable":
                self.problems.append(f"Docker on {name} cannot be used: {node['docker']['detail']}")
        if None not in versions and versions[0] != versions[1]:
            self.findings.append(
                f"{self.head} has Docker {versions[0]} and {self.worker} has {versions[1]}; that works, and the same "
                "one on both is easier to look after."
            )

    def sshd(self) -> None:
        if not self.nodes[self.worker]["sshd"]:
            self.problems.append(
                f"{self.worker} has no sshd, with which it takes in image and models: install it there with "
                "'sudo apt-get install openssh-server'."
            )

    def ports(self) -> None:
        for port in self.nodes[self.worker]["ports"]:
            if port["in_use"] and not port["ours"]:
                other = f" {port['description']}." if port["description"] else ""
                self.problems.append(
                    f"port {port['port']} on {port['address']} of {self.worker} is in use by {port['holder']}.{other} "
                    f"Stop it, or choose another port with {port['input']}."
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
            self.findings.append(f"{text}, which does not run and is replaced.")

    def other_head(self) -> None:
        """Whether the worker serves under another head."""
        slot, authorized = self.nodes[self.worker]["slot"], self.nodes[self.worker]["authorized"]
        own = self.nodes[self.head]["client_key"]
        if not slot or slot["state"] != "running" or not authorized or authorized["key"] == own:
            return
        if (slot["labels"] or {}).get(f"{LABEL}rank") != "1":
            return
        text = (
            f"{self.worker} serves as the worker of another head, which connects from {', '.join(authorized['from'])}"
        )
        if own:
            self.problems.append(f"{text}: stop that deployment with stop.yml first.")
        else:
            self.findings.append(f"{text}; that deployment is replaced.")


def compared(
    names: t.Sequence[str], nodes: t.Sequence[Facts], clock_skew: float, tolerate: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """The problems and the findings about two nodes, a sentence each, and how far the pair's image has come."""
    comparison = Comparison(names, nodes, clock_skew, tolerate)
    comparison.compare()
    head, worker = nodes
    return {
        "problems": comparison.problems,
        "findings": comparison.findings,
        "image_made": is_made(head),
        "image_copied": is_copied(head, worker),
    }


AUTHORIZED = re.compile(r'from="(?P<addresses>[^"]*)".* (?P<key>ssh-ed25519 [A-Za-z0-9+/]+={0,2})')


def authorized(text: str) -> dict[str, t.Any] | None:
    """Whom the first line of authorized_keys lets in."""
    found = AUTHORIZED.search(text.partition("\n")[0])
    return {"from": found["addresses"].split(","), "key": found["key"]} if found else None


# Whether there is room.


def amount(size: float) -> str:
    """For instance 130 GB, 65.2 GB, 431 MB."""
    divisor, unit = (1e9, "GB") if size >= 1e9 else (1e6, "MB")
    value = size / divisor
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"


class Demand(t.NamedTuple):
    """Something that will take room."""

    what: str
    bytes: int
    path: str
    filesystem: str | None
    free: int | None


def too_much(name: str, demands: t.Iterable[Demand], way_out: str) -> list[str]:
    """What does not fit on a node, one sentence for each file system; images can be moved in their own way."""
    found = []
    together: dict[str | None, list[Demand]] = {}
    for demand in demands:
        if demand.bytes > 0 and demand.free is not None:
            together.setdefault(demand.filesystem, []).append(demand)
    for filesystem, group in together.items():
        needed, free = sum(demand.bytes for demand in group), min(t.cast(int, demand.free) for demand in group)
        if needed > free:
            parts = ", ".join(f"{demand.what} {amount(demand.bytes)}" for demand in group)
            paths = " and ".join(dict.fromkeys(demand.path for demand in group))
            found.append(
                f"{name}: {amount(needed)} are needed ({parts}), but the file system {filesystem} of {paths} has only "
                f"{amount(free)} free. Make room there, or move {way_out} or the Hugging Face cache "
                "(huggingface_cache_directory) to a larger disk."
            )
    return found


def image_sizes(head: Facts, packed: int) -> tuple[int, int]:
    """What the pair's image takes unpacked and on its way; before it is pulled, by what the registry has packed."""
    made, base, store = head["images"]["pair"], head["images"]["base"], head["docker"]["store"]
    if is_made(head):
        return sizes(int(made["bytes"]), store)
    if base:
        return sizes(int(base["bytes"]) + ADDED_BYTES, store)
    unpacked = round(UNPACKED * packed) + ADDED_BYTES
    return unpacked, packed + ADDED_BYTES if store == CONTAINERD else unpacked


def room_needed(
    names: t.Sequence[str], nodes: t.Sequence[Facts], models: Facts, packed: int, reserve: int
) -> list[str]:
    """What does not fit, on both nodes.

    The classic store packs an image into a file of its own before it hands it out; containerd's hands out what it has.
    Both write down what they are handed before they unpack it. What they have got is deleted from the spool at once.
    """
    head, worker = nodes
    unpacked, sent = (0, 0) if is_copied(head, worker) else image_sizes(head, packed)
    docker = head["docker"]
    place = (docker["images"], docker["filesystem"], docker["free"])
    kept = packed if docker["store"] == CONTAINERD else 0
    own = [
        Demand("image", 0 if head["images"]["base"] or not unpacked else unpacked + kept, *place),
        Demand("image, packed for the other Spark", 0 if docker["store"] == CONTAINERD else sent, *place),
    ]
    docker, state = worker["docker"], worker["state"]
    # On one file system, Docker's copy grows as the spool shrinks.
    copy = sent if docker["filesystem"] != state["filesystem"] else 0
    missing = models["bytes_missing"]
    others = [
        Demand("models", missing, models["cache"], models["cache_filesystem"], models["cache_free_bytes"]),
        Demand("image", unpacked + copy, docker["images"], docker["filesystem"], docker["free"]),
        Demand(
            "image on its way",
            max(0, sent - worker["spooled_bytes"]),
            state["path"],
            state["filesystem"],
            state["free"],
        ),
    ]
    if missing or unpacked:
        cache = (models["cache"], models["cache_filesystem"], models["cache_free_bytes"])
        others.append(Demand("reserve", reserve, *cache))
    return too_much(names[0], own, head["docker"]["way_out"]) + too_much(names[1], others, docker["way_out"])
