# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Write the summary at the end of a run from a deployment's record."""

from __future__ import annotations

import textwrap
import typing as t

from ...module_utils._data.text import amount, join_words
from ...module_utils._deployment import break_even as _break_even
from ...module_utils._deployment import cluster_view, nccl, records
from ...module_utils._deployment.capacity import describe_capacity
from ...module_utils._deployment.lines import section, width, wrap_text
from ...module_utils._deployment.names import displayed
from ...module_utils._engines.registry import log_of
from .._engines.methods import METHODS, NONE, at_most
from .._engines.registry import drafting
from . import access


def format_known(value: t.Any, form: str) -> str:
    return "unknown" if value is None else form.format(value)


def first_lines(text: str, count: int = 4) -> list[str]:
    """Return the beginning of an answer, wrapped, with an ellipsis if it is shortened."""
    lines = [part for line in text.strip().splitlines() if line.strip() for part in textwrap.wrap(line, width() - 4)]
    return lines[:count] + (["..."] if len(lines) > count else [])


def heading(host: str, record: t.Mapping[str, t.Any]) -> str:
    cluster = record.get("cluster") or {}
    who = f"{join_words(cluster['nodes'])} serve" if cluster else f"{host} serves"
    return f"{who} {record['served_model']} {drafting(record)}"


def fabric(record: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """Return the cluster of a Spark in words; empty for a single Spark."""
    cluster = cluster_view.cluster_of({}, {}, record)
    rails = cluster.rails if cluster else ()
    sparks = len(cluster.nodes) if cluster else 1
    return [
        ("" if number else "fabric", cluster_view.describe_rail(rail, None, sparks))
        for number, rail in enumerate(rails)
    ]


def read_back(record: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """Return what the ranks reported before the server was started; a difference would have stopped the run."""
    ranks = cluster_view.ranks_of(record.get("cluster"))
    if len(ranks) < 2:
        return []
    cores = [cluster_view.cores(rank) for rank in ranks]
    parts = ["the same environment"]
    if None not in cores:
        parts.append(f"{cores[0]} cores each" if len(set(cores)) == 1 else f"{join_words(list(map(str, cores)))} cores")
    parts.append(network(ranks))
    versions = [rank.get("versions") for rank in ranks]
    if isinstance(versions[0], dict) and all(version == versions[0] for version in versions):
        listed = ", ".join(f"{name} {version}" for name, version in sorted(versions[0].items()) if version)
        parts.append(f"the same versions ({listed})" if listed else "the same versions")
    return [("ranks", ", ".join(parts))]


def network(ranks: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return what the ranks' NCCL uses. RDMA is only what the NCCL of every rank calls so."""
    result = [nccl.parse_facts(rank.get("network")) for rank in ranks]
    if any(one is not None and not one.rdma for one in result):
        return "NCCL without RDMA"
    if None in result:
        return "not known whether NCCL uses RDMA"
    return f"RDMA through the {'cable' if len(ranks) == 2 else 'switch'} by NCCL's own log"


def speed(record: t.Mapping[str, t.Any]) -> str:
    """Return the speed, beside that of the deployment that was replaced."""
    now, before = (record["measurements"] or {}).get("tokens_per_second"), record.get("compared")
    text = format_known(now, "{:.1f} tokens/s")
    if not now or not before:
        return text
    then = before["tokens_per_second"]
    return f"{text}; {before['speculation']}, before: {then:.1f} ({then / now:.2f} times)"


def figures(record: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    measured = record["measurements"] or {}
    rows = [
        ("first token", format_known(measured.get("ttft_s"), "{:.2f} s")),
        ("speed", speed(record)),
    ]
    acceptance = measured.get("acceptance_length")
    if record["method"] in METHODS:
        rows.append(
            ("acceptance length", f"{format_known(acceptance, '{:.2f}')} tokens per pass (maximum {at_most(record)})")
        )
    elif record["method"] != NONE and acceptance is not None:
        rows.append(("acceptance length", f"{acceptance:.2f} tokens per pass"))
    # An unchanged or restored server is not measured again.
    rows.append(("measured", f"at deployment, {record['deployed_at']}"))
    rows += [("" if number else "overrides", origin) for number, origin in enumerate(records.origins(record))]
    if record.get("context"):
        longest = log_of(record).longest_prompt(record.get("options") or {}, record["context"])
        rows.append(("capacity", describe_capacity(record["context"], record["concurrency"], longest)))
    where = f" on {record['cluster']['nodes'][0]}" if record.get("cluster") else ""
    if record.get("free_for_gpu"):
        rows.append(("free GPU memory", f"{record['free_for_gpu']}{where}"))
    rows.append(("available memory", f"{amount(record['memory_available'])}{where}"))
    return [*rows, *fabric(record), *read_back(record)]


def gain(record: t.Mapping[str, t.Any]) -> str:
    """Return a benchmark's verdict, or a sentence where speculation does not surely pay; nothing where it does."""
    measured = record.get("benchmark") or record.get("verdict")
    if measured:
        return f"By the benchmark of {measured['date']}: {measured['sentence']}"
    bounds = record.get("break_even")
    length = (record["measurements"] or {}).get("acceptance_length")
    if (record.get("compared") or {}).get("speculation") == "without speculation":
        return ""
    if not bounds:
        return _break_even.little(length) or ""
    return _break_even.verdict(length, _break_even.Bounds(bounds["best"], bounds["worst"])) or ""


def addresses(record: t.Mapping[str, t.Any], endpoint: access.Endpoint) -> list[tuple[str, str]]:
    """Return the deployment's name and where it is reached."""
    named = [("deployment", displayed(record["deployment"], record.get("variant")))] if record.get("deployment") else []
    where = f" on {record['cluster']['nodes'][0]}" if record.get("cluster") else ""
    return [*named, *access.rows(record["url"], record.get("listens_on"), endpoint, where)]


def table(rows: t.Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, value in rows for line in wrap_text(value, f"  {name:<19}", " " * 21)]


def findings(record: t.Mapping[str, t.Any]) -> list[str]:
    return section("Findings", (finding["message"] for finding in record["findings"]))


def short(host: str, record: t.Mapping[str, t.Any], endpoint: access.Endpoint) -> str:
    """Return the summary of a run that has changed nothing: what is new, and how to see the rest."""
    lines = [*wrap_text(heading(host, record), later="  "), "", *table(addresses(record, endpoint)), *findings(record)]
    return "\n".join([*lines, "", "  Nothing was changed. Full summary: status.yml"])


def render(
    host: str, record: t.Mapping[str, t.Any], reach: access.Reach, endpoint: access.Endpoint = access.NO_PROXY
) -> str:
    """Return the whole summary, one string of lines."""
    url, model = record["url"], record["served_model"]
    lines = [
        *wrap_text(heading(host, record), later="  "),
        "",
        *table([*addresses(record, endpoint), *figures(record)]),
    ]
    if sentence := gain(record):
        lines += ["", *wrap_text(sentence, "  ", "  ")]
    checks = record.get("checks") or []
    lines += section("Checks passed", (check for check in checks if check != records.NOT_COMPARED))
    lines += section("Not checked", (check for check in checks if check == records.NOT_COMPARED))
    answer = record["answer"]["text"] or record["answer"].get("reasoning") or ""
    lines += ["", "  Test answer:", *(f"    {line}" for line in first_lines(answer))]
    first = access.opening(url, reach, endpoint)
    lines += ["", *first] if first else []
    lines += ["", "  Send a request:", *access.curl(url, model, reach, endpoint)]
    lines += ["", "  Or from Python:", *access.python(url, model, reach, endpoint)]
    lines += section("Known issues", map(str, record.get("warnings") or []))
    return "\n".join(lines + findings(record))
