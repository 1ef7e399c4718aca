# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Remove secrets and identifying names from text, so that it can be published."""

from __future__ import annotations

import base64
import dataclasses
import ipaddress
import json
import os
import re
import typing as t
from pathlib import Path
from urllib.parse import quote

from .._engines.registry import LOGS

MASK = "<masked>"
# A shorter secret could match a part of ordinary words.
_LEAST_SECRET = 6
# Ends of names of secrets. Only tokens that give access count: eos_token does not match.
_SECRET_END = (
    r"(?:secret|passw(?:or)?d|passphrase|_pwd|credentials?|(?:api|access|secret|private|auth|signing|account|hmac)[_-]?key"
    r"|(?:hf|hub|face|access|api|auth|identity|refresh|id|session|security|bearer|user|registry|ngc|hugging)[_-]?token"
    r"|(?-i:_TOKEN|_PASS|TOKEN|PASS|_KEY|_PAT)|(?<![\w-])(?:auth|cookie))"
)
# Names of secrets.
SECRET = re.compile(rf"^\w*(?i:{_SECRET_END})$")
# Variables whose values do not identify a person or a machine. All others are masked, and all with a secret's name.
HARMLESS = re.compile(
    rf"(?!{SECRET.pattern})"
    r"(?:PATH|LANG|LC_\w+|TZ|PWD|HOSTTYPE|SHELL|DEBIAN_FRONTEND|CPATH|LIBRARY_PATH|LD_LIBRARY_PATH|PYTHON\w*"
    r"|CUDA_\w*|CUDNN_\w*|NCCL_\w*|UCX_\w*|TRITON_\w*"
    rf"|(?:{'|'.join(name for log in LOGS.values() for name in log.variables)})\w*"
    r"|TORCH\w*|PYTORCH_\w*|FLASHINFER_\w*|TIKTOKEN_\w*|HF_HOME|HF_HUB_CACHE|HF_HUB_OFFLINE|HF_MODULES_CACHE"
    r"|HF_TOKEN_PATH|TRANSFORMERS_\w*|TOKENIZERS_PARALLELISM|NVIDIA_\w+|NV_\w+|DGX_SPARK_\w+|DISABLE_\w+)$"
)
# The limit on the name's length keeps the search in a very long word fast.
_NAMED = rf"(?i:(?<![\w-])-{{0,2}}[\w-]{{0,60}}?{_SECRET_END})(?:\\?[\"'])?\s*[=:]\s*"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.S,
        ),
        "<private key>",
    ),
    # The end of a key whose beginning was cut off.
    (re.compile(r"\A[A-Za-z0-9+/=\s]*-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"), "<private key>"),
    (re.compile(r"(?<![A-Za-z0-9])hf_(?=[a-z_-]*[A-Z0-9]|[a-z]{20})[A-Za-z0-9_-]{4,}"), "<token>"),
    (re.compile(r"\bnvapi-[A-Za-z0-9_-]{4,}"), "<token>"),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|api_org_|sk-)[A-Za-z0-9_-]{16,}"), "<token>"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "<token>"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), "<token>"),
    (re.compile(r"\b(Bearer|Basic)(\s+)[A-Za-z0-9._~+/=-]{6,}", re.I), r"\1\2<token>"),
    # Headers, also as a dictionary shows them.
    (
        re.compile(
            r"\b(authorization\\?[\"']?\s*[=:]\s*\\?[\"']?(?:(?:token|digest)\s+)?)(?!bearer|basic)[^\s\"'\\]+", re.I
        ),
        r"\1" + MASK,
    ),
    (re.compile(r"\b(cookie\\?[\"']?\s*[=:]\s*\\?[\"']?)[^\n\"'\\]+", re.I), r"\1" + MASK),
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://)[^\s/?#\"'<>]{1,300}@", re.I), r"\1<credentials>@"),
    # A signed URL gives access to everyone who has it.
    (
        re.compile(
            r"([?&](?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|Signature|Policy|sig)=)[^&\s\"'\\]+", re.I
        ),
        r"\1" + MASK,
    ),
    # name: | with the value below it, in YAML.
    (re.compile(rf"(?m)^([ \t]*-?[ \t]*{_NAMED}[|>][+-]?[ \t]*\n)(?:[ \t]+[^\n]*\n?)+"), r"\1  " + MASK + "\n"),
    # name: ["value", ...], and with a value on each line below it, in YAML.
    (re.compile(rf"({_NAMED})\[[^\]\n]*\]?"), r"\1" + MASK),
    (re.compile(rf"({_NAMED})(?:-[ \t]+[^\n]*(?:\n[ \t]*(?=-[ \t]))?)+"), r"\1" + MASK),
    # "name": "value" and NAME='value', also inside of JSON that stands in a JSON string; then NAME=value.
    (re.compile(rf"({_NAMED}\")(?:\\.|[^\"\\\n])+"), r"\1" + MASK),
    (re.compile(rf"({_NAMED}')(?:''|\\.|[^'\\\n])+"), r"\1" + MASK),
    (re.compile(rf"({_NAMED}\\([\"']))(?!\\\2)[^\n]+?(?=\\\2)"), r"\1" + MASK),
    (re.compile(rf"({_NAMED})(?![\s<\[{{\"'\\|>]|(?:null|none|true|false)\b)[^\s\"'\\,;]+"), r"\1" + MASK),
    # --name value, also as a list of arguments; and a token by that name alone, if it looks like one.
    (
        re.compile(rf"((?i:--(?:[\w-]{{0,60}}?{_SECRET_END}|token))\\?[\"']?,?\s+\\?[\"']?)[^\s\"'\\-][^\s\"'\\]*"),
        r"\1" + MASK,
    ),
    (
        re.compile(
            r"((?<![\w-])(?:--)?token(?:\\?[\"'])?\s*[=:]\s*(?:\\?[\"'])?)(?=\D{0,200}\d)[A-Za-z0-9][\w.-]{7,}", re.I
        ),
        r"\1" + MASK,
    ),
)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{3,39}(?:(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])"
)
_MAC = re.compile(r"(?<![\w:-])[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}(?![\w:-])")
_HOME = re.compile(r"(/home/)([^/\s\"'\\:,]+)")


@dataclasses.dataclass(frozen=True)
class Secrets:
    """The values of this machine that must stay private."""

    tokens: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class Redactor:
    """Redactor of several texts. The same address gets the same placeholder in each text."""

    def __init__(self, secrets: Secrets) -> None:
        known = {token for token in secrets.tokens if len(token) >= _LEAST_SECRET}
        spelt = {text for token in known for text in spellings(token) if len(text) >= _LEAST_SECRET}
        self._tokens = sorted(spelt, key=len, reverse=True)
        self._hosts = [
            re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.I)
            for name in sorted(set(secrets.hosts), key=len, reverse=True)
            if name and name != "localhost"
        ]
        self._users = [
            re.compile(
                # A user name such as nvidia is also an ordinary word, so the context must match.
                rf"((?:\buser(?:name)?\b[\"']?[ =:]+[\"']?|\bbelongs to |\bchown (?:-R )?|\b[ug]id=\d+\())"
                rf"{re.escape(name)}\b|(?<![\w.-]){re.escape(name)}(?=@)",
                re.I,
            )
            for name in secrets.users
            if name and name != "root"
        ]
        self._named: dict[str, str] = {}

    def hide(self, text: str) -> str:
        """Replace secrets only. This is enough for output to a user of this machine."""
        for token in self._tokens:
            text = text.replace(token, "<token>")
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def redact(self, text: str) -> str:
        """Replace secrets, addresses, and the names of machine and user."""
        text = self.hide(text)
        text = _HOME.sub(r"\1<user>", text)
        text = _MAC.sub(lambda match: self._name("mac", match.group().lower()), text)
        text = _IPV6.sub(self._address, text)
        text = _IPV4.sub(self._address, text)
        for host in self._hosts:
            text = host.sub("<host>", text)
        for user in self._users:
            text = user.sub(lambda match: f"{match.group(1) or ''}<user>", text)
        return text

    def _name(self, kind: str, value: str) -> str:
        if value not in self._named:
            count = sum(name.startswith(f"<{kind}-") for name in self._named.values())
            self._named[value] = f"<{kind}-{count + 1}>"
        return self._named[value]

    def _address(self, match: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(match.group())
        except ValueError:
            # A time, a version, or part of a checksum.
            return match.group()
        if address.is_loopback or address.is_unspecified:
            return match.group()
        return self._name("ip", str(address))


def spellings(token: str) -> set[str]:
    """Return a token as it is, URL-encoded, and in base64 at each of the three offsets in a group of four."""
    result = {token, quote(token, safe="")}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + token.encode()).decode()
        # The first and the last group also encode the neighbouring text.
        result.add(encoded[(0, 4, 4)[before] : len(encoded) // 4 * 4 - 4])
    return result


def redact(text: str, secrets: Secrets) -> str:
    """Return the text without secrets, addresses, and the names of machine and user."""
    return Redactor(secrets).redact(text)


def hide_everywhere(data: t.Any, redactor: Redactor) -> t.Any:
    """Return a copy of nested data without secrets."""
    if isinstance(data, str):
        return redactor.hide(data)
    if isinstance(data, dict):
        return {key: hide_everywhere(value, redactor) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [hide_everywhere(item, redactor) for item in data]
    return data


def mask_environment(variables: t.Iterable[str]) -> list[str]:
    """Return the NAME=value pairs of a container. Only the values of HARMLESS variables are kept."""
    masked = []
    for variable in variables:
        name, separator, _value = variable.partition("=")
        masked.append(variable if HARMLESS.match(name) else f"{name}{separator}{MASK}")
    return masked


def mask_environments(data: t.Any) -> t.Any:
    """Return a copy of nested data in which every list or mapping of environment variables is masked."""
    if isinstance(data, dict):
        return {
            key: _masked(value) if key.lower() in ("env", "environment") else mask_environments(value)
            for key, value in data.items()
        }
    if isinstance(data, list):
        return [mask_environments(item) for item in data]
    return data


def _masked(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {name: text if HARMLESS.match(name) else MASK for name, text in value.items()}
    if isinstance(value, list):
        return mask_environment(str(item) for item in value)
    return mask_environments(value)


def token_paths(home: Path, cache: Path | None, environment: t.Mapping[str, str]) -> list[Path]:
    """Return the paths of token files of the Hugging Face Hub."""
    folders = [home / ".cache/huggingface"]
    if environment.get("HF_HOME"):
        folders.append(Path(environment["HF_HOME"]))
    if cache:
        folders += [cache.parent, cache]
    paths = [folder / name for folder in folders for name in ("token", "stored_tokens")]
    if environment.get("HF_TOKEN_PATH"):
        paths.append(Path(environment["HF_TOKEN_PATH"]))
    return [*paths, home / ".huggingface/token"]


def known_tokens(home: Path, cache: Path | None, environment: t.Mapping[str, str]) -> tuple[str, ...]:
    """Return the tokens on this machine: those for the Hub, and Docker's for registries."""
    result = {environment.get(name, "") for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "NGC_API_KEY")}
    for path in token_paths(home, cache, environment):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            # stored_tokens has sections, each with "hf_token = ...".
            if not line.strip().startswith("["):
                result.add(line.partition("=")[2].strip() or line.strip())
    try:
        accounts = json.loads((home / ".docker/config.json").read_text(encoding="utf-8")).get("auths") or {}
        result.update(str(account.get("auth") or "") for account in accounts.values())
    except (OSError, ValueError, AttributeError):
        pass
    return tuple(sorted(token for token in result if len(token) >= _LEAST_SECRET))


def secrets_of(home: Path, cache: Path | None, hosts: t.Iterable[str], user: str) -> Secrets:
    """Return the values that must not leave this machine."""
    return Secrets(known_tokens(home, cache, os.environ), tuple(hosts), (user,))
