# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the facts of the ranks: each difference that matters is an error that names it."""

from __future__ import annotations

import typing as t

from server import rdma

# The connections of ranks in ranks.json.
TRANSPORT = "transport"
# The names of this Spark's ends of the cables.
PER_RAIL = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX")
# Without these NCCL takes the network it finds first.
NEEDED = ("NCCL_SOCKET_IFNAME",)


class Difference(t.NamedTuple):
    """Something that is not as it has to be."""

    what: str
    message: str
    severity: str = "error"


def compare(
    ranks: t.Sequence[dict[str, t.Any]],
    workers: t.Sequence[str],
    paths: t.Sequence[str],
    per_spark: t.Collection[str] = (),
) -> list[Difference]:
    """Return the differences between the ranks, errors first. No data to compare is an error as well.

    `workers` are the addresses at which the head reaches the others, `paths` what all have to have, and `per_spark`
    further variables whose values differ.
    """
    lacking = unreached(ranks, workers)
    if lacking:
        return lacking
    result = [
        *addresses(ranks),
        *environments(ranks, {*PER_RAIL, *per_spark}),
        *affinities(ranks),
        *interfaces(ranks),
        *transports(ranks),
        *library_versions(ranks),
        *files(ranks, paths),
        *machines(ranks),
    ]
    return sorted(result, key=lambda difference: difference.severity != "error")


def unreached(ranks: t.Sequence[dict[str, t.Any]], workers: t.Sequence[str]) -> list[Difference]:
    """Check that each rank runs on its own Spark, and that each Spark has its own name."""
    names = [rank["host"] for rank in ranks]
    if not ranks:
        return [Difference("host", "no rank has reported its facts")]
    sparks = {(rank["host"], rank["addresses"]) for rank in ranks}
    if len(sparks) <= len(workers):
        there = " and ".join(dict.fromkeys(names))
        said = f"{len(ranks)} ranks run on {there}" if len(ranks) > len(sparks) else f"only {there} answered"
        missing = [worker for worker in workers if not any(worker in rank["addresses"].split(",") for rank in ranks)]
        text = f"{said}: {' and '.join(missing)} was not reached; check that it is a worker's address on the fabric"
        return [Difference("host", text)]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    text = "{} Sparks are called {}; give each a name of its own with 'sudo hostnamectl hostname'"
    return [Difference("host", text.format(names.count(name), name)) for name in twice]


def by_value(ranks: t.Sequence[dict[str, t.Any]], values: t.Sequence[object], between: str = " and ") -> str:
    """Return values by node: '1 on spark-a and spark-b, 2 on spark-c'."""
    hosts: dict[str, list[str]] = {}
    for rank, value in zip(ranks, values):
        hosts.setdefault(str(value), []).append(rank["host"])
    return between.join(f"{value} on {' and '.join(names)}" for value, names in hosts.items())


def called(rank: dict[str, t.Any]) -> str:
    return f"rank {rank['rank']} on {rank['host']}"


def addresses(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    """NCCL would say 'unhandled system error'."""
    for rank in ranks:
        if rank["gone"]:
            text = f"{rank['host']} no longer has its fabric address {' and '.join(rank['gone'])}"
            yield Difference(
                "addresses",
                f"{text}; run 'sudo netplan apply' there, or the playbook again, which checks the network",
            )


def environments(ranks: t.Sequence[dict[str, t.Any]], per_spark: t.Collection[str]) -> t.Iterator[Difference]:
    settings = [rank["environment"] for rank in ranks]
    for name in sorted({*NEEDED, *(name for setting in settings for name in setting)}):
        values = [setting.get(name) for setting in settings]
        lacking = [called(rank) for rank, value in zip(ranks, values) if value is None]
        if len(lacking) == len(ranks):
            text = f"no rank has {name}, without which NCCL uses the first network that it finds"
            yield Difference(name, f"{text}; run the playbook again")
        elif lacking:
            text = f"{' and '.join(lacking)} does not have {name}, which others have"
            yield Difference(name, f"{text}; run the playbook again")
        elif len(set(values)) > 1 and name not in per_spark:
            text = f"{name} is {by_value(ranks, [repr(value) for value in values])}"
            yield Difference(name, f"{text}; it has to be the same on all")


def affinities(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    for rank in ranks:
        if rank["cores"] == 1 and rank["cores_here"] > 1:
            text = f"{called(rank)} is bound to one of {rank['cores_here']} cores, which starves NCCL's threads"
            yield Difference("cores", f"{text}; remove the variable that binds it")


def interfaces(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    for name, known_as in (("NCCL_SOCKET_IFNAME", "interfaces"), ("NCCL_IB_HCA", "rdma")):
        for rank in ranks:
            wanted, known = rank["environment"].get(name, ""), rank[known_as]
            # Without RDMA devices in sight nothing can be said about their names; '^' excludes.
            if not known or wanted.startswith("^"):
                continue
            exactly = wanted.startswith("=")
            for part in filter(None, wanted.lstrip("=").split(",")):
                device = part.partition(":")[0]
                if not any(device == has or (not exactly and has.startswith(device)) for has in known):
                    text = f"{name} names {device}, which {rank['host']} does not have (it has {', '.join(known)})"
                    yield Difference(name, text)


def transports(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    """Check the RDMA devices, because NCCL silently uses TCP without them."""
    for rank in ranks:
        told, known = rdma.by_tcp(rank["environment"]), rank["verbs"]
        lacking = [device for device, node in known.items() if node is None]
        has = ", ".join(rank["rdma_nodes"]) or "nothing"
        why = f"as {told} says" if told else None
        if not known and not rank["rdma"]:
            why = why or "for this Spark has no RDMA device: 'sudo modprobe mlx5_ib', then run the playbook again"
        if why:
            text = f"{called(rank)} uses TCP instead of RDMA, {why}"
            yield Difference(TRANSPORT, text, "warning")
        elif lacking or (not known and len(rank["rdma_nodes"]) < len(rank["addresses"].split(","))):
            text = f"{called(rank)} cannot use {' and '.join(lacking) or 'all its RDMA devices'}"
            advice = "restart its container with 'docker restart', which gives it the devices that the Spark has now"
            yield Difference(TRANSPORT, f"{text} (/dev/infiniband has {has}); {advice}")


def library_versions(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    for name in ranks[0]["versions"]:
        values = [rank["versions"].get(name) for rank in ranks]
        if len(set(values)) > 1:
            text = f"{name} is {by_value(ranks, values)}"
            yield Difference(name, f"{text}: the containers were made from different images; run the playbook again")


def files(ranks: t.Sequence[dict[str, t.Any]], paths: t.Sequence[str]) -> t.Iterator[Difference]:
    for path in dict.fromkeys([*paths, *ranks[0]["paths"]]):
        values = [rank["paths"].get(path) for rank in ranks]
        lacking = [rank["host"] for rank, value in zip(ranks, values) if value is None]
        if lacking:
            text = (
                f"{path} is missing or incomplete on {' and '.join(lacking)}; run the playbook again, which copies it"
            )
            yield Difference(path, text)
        elif len(set(values)) > 1:
            text = f"{path} differs: {by_value(ranks, values, ', ')}"
            yield Difference(path, f"{text}; run the playbook again")


def machines(ranks: t.Sequence[dict[str, t.Any]]) -> t.Iterator[Difference]:
    """Yield the differences that make a rank slower, but do not prevent it from running."""
    for what, name in (("gpu", "GPU and driver"), ("memory_gib", "memory in GiB")):
        values = [rank[what] for rank in ranks]
        # Sparks of one model need not have the same memory to the last page.
        same = len(set(values)) == 1 or (what == "memory_gib" and max(values) - min(values) <= 2)
        if not same:
            text = f"{name}: {by_value(ranks, values)}"
            yield Difference(what, f"{text}; the slower one sets the pace", "warning")


def table(ranks: t.Sequence[dict[str, t.Any]]) -> str:
    """Return the facts of the ranks side by side."""
    rows = [["", *(f"rank {rank['rank']}" for rank in ranks)]]

    def add(name: str, values: t.Iterable[object]) -> None:
        rows.append([name, *("-" if value in (None, "", []) else str(value) for value in values)])

    add("host", (rank["host"] for rank in ranks))
    add("fabric addresses", (rank["addresses"] for rank in ranks))
    add("cores", (f"{rank['cores']} of {rank['cores_here']}" for rank in ranks))
    add("memory in GiB", (rank["memory_gib"] for rank in ranks))
    add("GPU, driver", (rank["gpu"] for rank in ranks))
    add("RDMA devices", (", ".join(rank["rdma"]) for rank in ranks))
    add("RDMA nodes", (", ".join(rank["rdma_nodes"]) for rank in ranks))
    add("RDMA ready", (", ".join(device for device, node in rank["verbs"].items() if node) for rank in ranks))
    for part in ("versions", "environment", "paths"):
        for name in dict.fromkeys(name for rank in ranks for name in rank[part]):
            add(name, (rank[part].get(name) for rank in ranks))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
