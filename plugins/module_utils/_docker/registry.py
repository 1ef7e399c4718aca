# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Query an image registry for an image, anonymously and without downloading a layer."""

from __future__ import annotations

import difflib
import hashlib
import http.client
import json
import re
import ssl
import typing as t
from dataclasses import dataclass
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urljoin, urlsplit

from ansible.module_utils.urls import ConnectionError as UrlsConnectionError
from ansible.module_utils.urls import SSLValidationError, open_url

from .cuda import cuda_of

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
TIMEOUT_S = 30
MOST_TAG_PAGES = 10

REPOSITORY = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(
    rf"(?P<repository>{REPOSITORY}(?:/{REPOSITORY})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


# Docker's own registry answers under another host name than this one.
DOCKER_HUB = "docker.io"


class RegistryError(Exception):
    """The query of the registry failed. The text is one sentence for the user."""


@dataclass(frozen=True)
class Reference:
    """The parts of an image's name."""

    host: str
    repository: str
    tag: str
    digest: str

    @property
    def version(self) -> str:
        """Return the version in the manifest's URL. If there is a digest, the tag does not matter."""
        return self.digest or self.tag

    @property
    def base_url(self) -> str:
        """Return the URL of the registry. As in Docker, plain HTTP is only for a registry on the same machine."""
        local = re.fullmatch(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?", self.host)
        return f"{'http' if local else 'https'}://{self.host}"


def parse_reference(text: str) -> Reference:
    """Parse an image reference by Docker's rules."""
    first, slash, rest = text.partition("/")
    if slash and (re.search("[.:]", first) or first == "localhost"):
        host = first
    else:
        host, rest = DOCKER_HUB, text
    if host in (DOCKER_HUB, f"index.{DOCKER_HUB}"):
        host, rest = f"registry-1.{DOCKER_HUB}", rest if "/" in rest else f"library/{rest}"
    match = REFERENCE.fullmatch(rest)
    if not match:
        raise RegistryError(f"{text!r} is not the name of an image; it should look like nvcr.io/nvidia/name:tag.")
    tag, digest = match["tag"] or "", match["digest"] or ""
    return Reference(host, match["repository"], tag if tag or digest else "latest", digest)


@dataclass(frozen=True)
class Response:
    """A response with any status."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> t.Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


Fetch = t.Callable[[str, dict[str, str]], Response]


def fetch(url: str, headers: dict[str, str], validate_certs: bool = True) -> Response:
    """Fetch a page. An error status is returned, not raised."""
    try:
        answer = open_url(
            url,
            headers=headers,
            # The registry redirects to a blob store, which must not receive the token.
            unredirected_headers=["Authorization"],
            timeout=TIMEOUT_S,
            validate_certs=validate_certs,
            http_agent="dgx_spark.speculative",
        )
    except HTTPError as e:
        answer = e
    except (URLError, UrlsConnectionError, SSLValidationError, OSError, http.client.HTTPException) as e:
        reason = getattr(e, "reason", None) or e
        hint = "check the machine's network, its name server and its proxy settings"
        if isinstance(reason, ssl.SSLError) or isinstance(e, SSLValidationError):
            hint = "check the machine's clock and its certificates"
        raise RegistryError(f"The registry {urlsplit(url).netloc} cannot be reached ({reason}); {hint}.") from e
    try:
        with answer:
            return Response(answer.status, {key.lower(): value for key, value in answer.headers.items()}, answer.read())
    except (OSError, http.client.HTTPException) as e:
        raise RegistryError(f"The registry {urlsplit(url).netloc} broke off its answer ({e!r}); run again.") from e


class Registry:
    """One repository of a registry."""

    def __init__(self, base_url: str, repository: str, fetch_page: Fetch = fetch) -> None:
        self._base_url = base_url.rstrip("/")
        self._repository = repository
        self._fetch = fetch_page
        self._token = ""

    @property
    def name(self) -> str:
        return f"{urlsplit(self._base_url).netloc}/{self._repository}"

    def manifest(self, version: str) -> tuple[str, dict[str, t.Any]] | None:
        """Return the digest and the content of a manifest or an index of manifests; None if there is none."""
        path = f"/v2/{self._repository}/manifests/{quote(version, safe=':')}"
        response = self._get(path, ", ".join(INDEX_TYPES + MANIFEST_TYPES))
        if response.status == 404:
            return None
        content = self._content(response, "a manifest")
        digest = response.headers.get("docker-content-digest") or f"sha256:{hashlib.sha256(response.body).hexdigest()}"
        return digest, content

    def configuration(self, digest: str) -> dict[str, t.Any]:
        """Return an image's configuration: some kilobytes that include its platform."""
        response = self._get(f"/v2/{self._repository}/blobs/{quote(digest, safe=':')}", "*/*")
        return self._content(response, "the configuration of an image")

    def tags(self) -> list[str]:
        """Return the tags, from MOST_TAG_PAGES requests at most."""
        tags: list[str] = []
        path: str | None = f"/v2/{self._repository}/tags/list?n=1000"
        for _page in range(MOST_TAG_PAGES):
            if path is None:
                break
            response = self._get(path, "application/json")
            if response.status == 404:
                break
            tags += self._content(response, "the list of tags").get("tags") or []
            link = re.match(r'<([^>]+)>.*rel="?next"?', response.headers.get("link", ""))
            path = urljoin(path, link[1]) if link else None
        return tags

    def _content(self, response: Response, what: str) -> dict[str, t.Any]:
        if response.status in (401, 403):
            raise RegistryError(
                f"The registry does not hand out {self.name} to anonymous clients (status {response.status}); "
                "check the name, and whether the image is public."
            )
        if response.status == 429:
            raise self._too_many()
        content = response.json()
        if response.status != 200 or not isinstance(content, dict):
            raise RegistryError(
                f"Asking the registry for {what} of {self.name} failed with status {response.status}; "
                "is this the address of an image registry, and does it work?"
            )
        return content

    def _too_many(self) -> RegistryError:
        return RegistryError(
            f"The registry refuses requests for {self.name} for now because there were too many; wait a while."
        )

    def _get(self, path: str, accept: str) -> Response:
        url = urljoin(self._base_url, path)
        response = self._fetch(url, self._headers(accept))
        if response.status == 401:
            self._token = self._new_token(response.headers.get("www-authenticate", ""))
            if self._token:
                response = self._fetch(url, self._headers(accept))
        return response

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _new_token(self, challenge: str) -> str:
        """Request the token that even anonymous clients need. Return an empty text if there is none."""
        scheme, _space, rest = challenge.partition(" ")
        wanted = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        realm = wanted.pop("realm", "")
        if scheme.lower() != "bearer" or not realm:
            return ""
        wanted.setdefault("scope", f"repository:{self._repository}:pull")
        wanted.pop("error", None)
        response = self._fetch(f"{realm}{'&' if '?' in realm else '?'}{urlencode(wanted)}", {})
        content = response.json()
        if response.status == 200 and isinstance(content, dict):
            return str(content.get("token") or content.get("access_token") or "")
        if response.status == 429:
            raise self._too_many()
        asked = f"For {self.name} the registry wants a token, and {urlsplit(realm).netloc}, which hands them out,"
        if response.status >= 500:
            raise RegistryError(
                f"{asked} does not work for now (status {response.status}); wait some minutes, then run again."
            )
        if response.status == 200:
            raise RegistryError(f"{asked} answers with something else; check for a proxy or a login page in between.")
        return ""


def platform_name(platform: dict[str, t.Any]) -> str:
    parts = (platform.get("os"), platform.get("architecture"), platform.get("variant"))
    return "/".join(str(part) for part in parts if part)


def is_for(name: str, wanted: str) -> bool:
    """Return whether a platform matches. A variant counts only if `wanted` has one."""
    return name == wanted or (wanted.count("/") == 1 and name.startswith(f"{wanted}/"))


def pick(index: dict[str, t.Any], wanted: str) -> str | None:
    """Return the digest of a platform's manifest."""
    for entry in index.get("manifests") or []:
        if is_for(platform_name(entry.get("platform") or {}), wanted):
            return str(entry["digest"])
    return None


def nearest(tag: str, tags: list[str]) -> list[str]:
    return difflib.get_close_matches(tag, tags, n=5, cutoff=0.0)


def _cuda(registry: Registry, config_digest: str | None) -> str | None:
    """Return the CUDA that an image needs of the driver; None if the registry cannot say."""
    try:
        configuration = registry.configuration(config_digest) if config_digest else {}
    except RegistryError:
        return None
    return cuda_of((configuration.get("config") or {}).get("Env"))


def describe(registry: Registry, reference: Reference, platform: str) -> dict[str, t.Any]:
    """Return the facts that the registry has about an image."""
    result: dict[str, t.Any] = {
        "exists": False,
        "digest": None,
        "platform": platform,
        "platforms": [],
        "platform_digest": None,
        "config_digest": None,
        "cuda": None,
        "compressed_bytes": None,
        "layers": [],
        "tags": [],
    }
    answer = registry.manifest(reference.version)
    if answer is None:
        result["tags"] = nearest(reference.tag, registry.tags()) if reference.tag else []
        return result
    digest, manifest = answer
    result.update(exists=True, digest=digest)
    if "manifests" in manifest:
        names = [platform_name(entry.get("platform") or {}) for entry in manifest["manifests"]]
        # Signatures and attestations are in the index with the platform unknown.
        result["platforms"] = sorted({name for name in names if name and "unknown" not in name})
        chosen = pick(manifest, platform)
        if chosen is None:
            return result
        answer = registry.manifest(chosen)
        if answer is None:
            return result
        digest, manifest = answer
    else:
        # A single manifest has no platform, and Docker would only notice after the last layer.
        made_for = platform_name(registry.configuration(manifest["config"]["digest"]))
        result["platforms"] = [made_for] if made_for else []
        if made_for and not is_for(made_for, platform):
            return result
    config_digest = (manifest.get("config") or {}).get("digest")
    layers = {layer["digest"]: layer.get("size") or 0 for layer in manifest.get("layers") or []}
    result.update(
        platform_digest=digest,
        config_digest=config_digest,
        cuda=_cuda(registry, config_digest),
        layers=[{"digest": digest, "size": size} for digest, size in layers.items()],
        compressed_bytes=sum(layers.values()),
    )
    return result
