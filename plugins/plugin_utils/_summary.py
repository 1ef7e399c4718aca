# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""What a person reads at the end of a run, made from a deployment's record."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import shlex
import textwrap
import typing as t
from urllib.parse import urlsplit

METHODS = {"eagle3": "EAGLE-3", "draft_target": "Draft-Target"}
WIDTH = 100


@dataclasses.dataclass(frozen=True)
class Reach:
    """How the controller reaches the Spark: not at all for a local connection, else by SSH."""

    local: bool
    host: str = ""
    user: str = ""
    port: int = 22
    private_key: str = ""
    extra_arguments: str = ""

    def tunnel(self, url: str) -> str:
        """The command that makes the Spark's loopback port this machine's."""
        address = urlsplit(url)
        options = [*shlex.split(self.extra_arguments), "-N", "-L", f"{address.port}:{address.netloc}"]
        if self.port != 22:
            options += ["-p", str(self.port)]
        if self.private_key:
            options += ["-i", self.private_key]
        target = f"{self.user}@{self.host}" if self.user else self.host
        return shlex.join(["ssh", *options, target])


def known(value: t.Any, form: str) -> str:
    return "unknown" if value is None else form.format(value)


def first_lines(text: str, count: int = 4) -> list[str]:
    """The beginning of an answer, wrapped; says so where it was cut."""
    lines = [part for line in text.strip().splitlines() if line.strip() for part in textwrap.wrap(line, WIDTH - 6)]
    return lines[:count] + (["..."] if len(lines) > count else [])


def heading(host: str, record: t.Mapping[str, t.Any]) -> str:
    method = METHODS.get(record["method"])
    how = f"with {method}, draft length {record['draft_length']}" if method else "without drafts"
    return f"{host} serves {record['target_model']} {how}"


def figures(record: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    measured = record["measurements"] or {}
    rows = [
        ("first token", known(measured.get("ttft_s"), "{:.2f} s")),
        ("speed", known(measured.get("tokens_per_second"), "{:.1f} tokens/s")),
    ]
    if record["method"] in METHODS:
        length = known(measured.get("acceptance_length"), "{:.2f}")
        rows.append(("acceptance length", f"{length} tokens a pass, {record['draft_length'] + 1} at most"))
    rows.append(("memory left", f"{record['memory_available'] / 1e9:.1f} GB"))
    return rows


def audience(record: t.Mapping[str, t.Any]) -> str:
    """Who can use the API: TensorRT-LLM has no authentication."""
    address = record.get("listens_on", "127.0.0.1")
    if ipaddress.ip_address(address).is_loopback:
        return "only from the Spark itself"
    return f"open to everyone who can reach {address}"


def curl(url: str, model: str) -> list[str]:
    body = {"model": model, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
    return [
        f"curl {url}/v1/chat/completions -H 'Content-Type: application/json' \\",
        f"  -d {shlex.quote(json.dumps(body))}",
    ]


def python(url: str, model: str) -> list[str]:
    return [
        "from openai import OpenAI",
        f'client = OpenAI(base_url="{url}/v1", api_key="none")',
        f'reply = client.chat.completions.create(model="{model}", messages=[{{"role": "user", "content": "Hello"}}])',
        "print(reply.choices[0].message.content)",
    ]


def render(host: str, record: t.Mapping[str, t.Any], reach: Reach) -> str:
    """The whole summary, one string of lines."""
    url, model = record["url"], record["served_model"]
    rows = [("URL", f"{url}/v1 ({audience(record)})"), *figures(record)]
    lines = [heading(host, record), ""]
    lines += [f"  {name:<19}{value}" for name, value in rows]
    answer = record["answer"]["text"] or record["answer"].get("reasoning") or ""
    lines += ["", "  It answered:", *(f"    {line}" for line in first_lines(answer))]
    if not reach.local:
        lines += ["", "  Open a tunnel from here:", f"    {reach.tunnel(url)}"]
    lines += ["", "  Ask it:" if reach.local else "  Then ask it:", *(f"    {line}" for line in curl(url, model))]
    lines += ["", "  Or from Python:", *(f"    {line}" for line in python(url, model))]
    if record["findings"]:
        lines += ["", "  Findings:", *(f"    - {finding['message']}" for finding in record["findings"])]
    return "\n".join(lines)
