# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Describe the access to a model: addresses, key, and commands that work as printed."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import posixpath
import shlex
import typing as t
from urllib.parse import urlsplit

from ...module_utils._deployment.lines import command, quote_words

LAN, DOCKER = "lan", "docker"


@dataclasses.dataclass(frozen=True)
class Reach:
    """The controller's connection to the Spark: local or SSH."""

    local: bool
    host: str = ""
    user: str = ""
    port: int = 22
    private_key: str = ""
    extra_arguments: str = ""

    def ssh(self, options: t.Sequence[str] = (), words: t.Sequence[str] = ()) -> list[str]:
        """Return the words of a command over SSH."""
        port = ["-p", str(self.port)] if self.port != 22 else []
        key = ["-i", self.private_key] if self.private_key else []
        target = f"{self.user}@{self.host}" if self.user else self.host
        return quote_words(["ssh", *shlex.split(self.extra_arguments), *options, *port, *key, target, *words])

    def tunnel(self, url: str) -> list[str]:
        """Return the command that makes the Spark's loopback port this machine's."""
        address = urlsplit(url)
        return self.ssh(["-N", "-L", f"{address.port}:{address.netloc}"])

    def read(self, path: str) -> list[str]:
        """Return the command that prints a small file of the Spark's."""
        return quote_words(["cat", path]) if self.local else self.ssh(words=[shlex.join(["cat", path])])


def reach_of(action: t.Any, variables: t.Mapping[str, t.Any]) -> Reach:
    """Return the connection of a task's action to its host."""
    context = action._play_context
    return Reach(
        local=action._connection.transport == "local",
        host=str(context.remote_addr or ""),
        user=str(context.remote_user or ""),
        port=int(context.port or 22),
        private_key=str(context.private_key_file or ""),
        extra_arguments=str(action._templar.template(variables.get("ansible_ssh_common_args", ""))),
    )


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Describe the endpoint that the role api_proxy exported.

    It has addresses by scope, files of keys by name, and the file on the controller with which clients verify the
    certificate.
    """

    urls: t.Sequence[t.Mapping[str, str]] = ()
    keys: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    ca: str = ""

    def of(self, scope: str) -> list[str]:
        return [url["url"] for url in self.urls if url["scope"] == scope]

    @property
    def key(self) -> str:
        """The file of the first key."""
        return next(iter(self.keys.values()), "")


NO_PROXY = Endpoint()


def endpoint_of(said: t.Mapping[str, t.Any] | None) -> Endpoint:
    """Return the endpoint of endpoint.json; NO_PROXY if it is empty."""
    return Endpoint(**{field.name: said[field.name] for field in dataclasses.fields(Endpoint)}) if said else NO_PROXY


def api(url: str, listens_on: str | None) -> str:
    """Return the URL of the API, and from where it can be reached."""
    try:
        local = ipaddress.ip_address(listens_on or "").is_loopback
    except ValueError:
        return f"{url}/v1"
    return f"{url}/v1 ({'reachable from this Spark only' if local else f'open to everyone who can reach {listens_on}'})"


def rows(url: str, listens_on: str | None, endpoint: Endpoint, where: str = "") -> list[tuple[str, str]]:
    """Return the addresses, those that others use first, and what they need for that."""
    result = [(f"{one}/v1", "other machines, with a key") for one in endpoint.of(LAN)]
    result += [(f"{one}/v1", "containers on the Spark, with a key") for one in endpoint.of(DOCKER)]
    lines = [f"{address} ({who})" for address, who in result]
    if not endpoint.of(LAN):
        lines.insert(0, api(url, listens_on) + where)
    named = [("" if number else "URL", line) for number, line in enumerate(lines)]
    if endpoint.urls and endpoint.keys:
        named.append(("keys", f"{', '.join(endpoint.keys)} (in {posixpath.dirname(endpoint.key)} on the Spark)"))
    if endpoint.of(LAN) and endpoint.ca:
        named.append(("CA certificate", f"{endpoint.ca} on the controller that set up the proxy"))
    return named


def base(url: str, reach: Reach, endpoint: Endpoint) -> str:
    """Return the address that the commands are for.

    Of the addresses for other machines it is the one that this machine uses.
    """
    offered = endpoint.of(LAN) or [url]
    return f"{next((one for one in offered if urlsplit(one).hostname == reach.host), offered[0])}/v1"


def opening(url: str, reach: Reach, endpoint: Endpoint) -> list[str]:
    """Return what to do first: read the key or open an SSH tunnel; empty on the Spark itself."""
    if endpoint.of(LAN) and endpoint.key:
        *words, last = reach.read(endpoint.key)
        return ["  Read the key:", *command([f"KEY=$({words[0]}", *words[1:], f"{last})"])]
    return [] if reach.local else ["  Open an SSH tunnel:", *command(reach.tunnel(url))]


def curl(url: str, model: str, reach: Reach, endpoint: Endpoint) -> list[str]:
    words = [f"curl {base(url, reach, endpoint)}/chat/completions"]
    if endpoint.of(LAN):
        words += [f"--cacert {endpoint.ca}"] if endpoint.ca else []
        words.append('-H "Authorization: Bearer $KEY"')
    words.append("-H 'Content-Type: application/json'")
    messages = json.dumps([{"role": "user", "content": "Why is the sky blue?"}])
    # JSON may have a line's end between its parts.
    body = shlex.quote(f'{{"model": {json.dumps(model)},\n           "messages": {messages}}}')
    *before, last = command(words)
    return [*before, f"{last} \\", *f"      -d {body}".splitlines()]


def python(url: str, model: str, reach: Reach, endpoint: Endpoint) -> list[str]:
    exported, key = "", ', api_key="none"'
    if endpoint.of(LAN):
        # The library reads both by itself.
        exported, key = f"export OPENAI_API_KEY=$KEY{f' SSL_CERT_FILE={endpoint.ca}' if endpoint.ca else ''}", ""
    lines = [
        *([f"# {exported}"] if exported else []),
        "from openai import OpenAI",
        f'client = OpenAI(base_url="{base(url, reach, endpoint)}"{key})',
        "reply = client.chat.completions.create(",
        f'    model="{model}",',
        '    messages=[{"role": "user", "content": "Hello"}],',
        ")",
        "print(reply.choices[0].message.content)",
    ]
    return [f"    {line}" for line in lines]
