# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The twin's image registry, spoken to on this machine's loopback address."""

from __future__ import annotations

import hashlib
import json
import platform
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from tests.twin.names import RELEASE_REPOSITORY, TwinError

Json = dict[str, t.Any]

INDEX_KIND = "application/vnd.docker.distribution.manifest.list.v2+json"
KINDS = ("docker.distribution.manifest.v2", "oci.image.manifest.v1", "oci.image.index.v1")
ACCEPTED = ", ".join((*(f"application/vnd.{kind}+json" for kind in KINDS), INDEX_KIND))
ARCHITECTURE = {"aarch64": "arm64", "x86_64": "amd64"}.get(platform.machine(), platform.machine())
# A processor that this machine does not have.
FOREIGN_ARCHITECTURE = "amd64" if ARCHITECTURE == "arm64" else "arm64"


class Registry:
    """One repository of the registry at this address."""

    def __init__(self, address: str, repository: str = RELEASE_REPOSITORY) -> None:
        self.address = address
        self.base = f"http://{address}/v2/{repository}"

    def ids(self, tag: str) -> set[str]:
        """The names under which Docker may know the image of this tag; empty when there is none."""
        found = self._manifest(tag)
        if found is None:
            return set()
        manifest, _, digest = found
        own = own_entry(manifest)
        # The id of an image is the digest of its configuration or of its manifest, as the engine stores images.
        return {digest} | (self.ids(own["digest"]) if own else {manifest["config"]["digest"]})

    def add_release(self, base: str, tag: str, release: str) -> bool:
        """Have the image of one tag under another, telling that it is this release; whether that was news."""
        return self._add(base, tag, lambda configuration: with_release(configuration, release))

    def add_foreign(self, base: str, tag: str) -> bool:
        """Have the image of one tag under another, made for a processor that this machine does not have."""
        return self._add(base, tag, lambda configuration: {**configuration, "architecture": FOREIGN_ARCHITECTURE})

    def offer_both(self, tag: str, foreign: str) -> bool:
        """Turn a tag into a list of its image for this machine and of a foreign one; whether that was news."""
        found = self._manifest(tag)
        own = own_entry(found[0]) if found else None
        # The foreign one comes first, so that whoever takes the first gets the wrong one.
        entries = [self._entry(foreign, FOREIGN_ARCHITECTURE), self._entry(own["digest"] if own else tag, ARCHITECTURE)]
        content = {"schemaVersion": 2, "mediaType": INDEX_KIND, "manifests": entries}
        if found and found[0] == content:
            return False
        self._call("PUT", f"manifests/{tag}", json.dumps(content).encode(), INDEX_KIND)
        return True

    def _entry(self, version: str, architecture: str) -> Json:
        body, headers = self._call("GET", f"manifests/{version}")
        return {
            "mediaType": headers["Content-Type"],
            "digest": headers["Docker-Content-Digest"],
            "size": len(body),
            "platform": {"os": "linux", "architecture": architecture},
        }

    def _add(self, base: str, tag: str, change: t.Callable[[Json], Json]) -> bool:
        """Only the configuration differs, so that neither a build nor another copy of the layers is needed."""
        manifest, kind = self._image(base)
        configuration = json.loads(self._call("GET", f"blobs/{manifest['config']['digest']}")[0])
        content = json.dumps(change(configuration), sort_keys=True).encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if digest in self.ids(tag):
            return False
        location = self._call("POST", "blobs/uploads/", b"")[1]["Location"]
        place = urllib.parse.urljoin(f"http://{self.address}", location)
        self._call("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", content, "application/octet-stream")
        manifest["config"] |= {"digest": digest, "size": len(content)}
        self._call("PUT", f"manifests/{tag}", json.dumps(manifest).encode(), kind)
        return True

    def _image(self, tag: str) -> tuple[Json, str]:
        """The manifest of the image of this tag, out of the list of them where there is one."""
        found = self._manifest(tag)
        own = own_entry(found[0]) if found else None
        if own:
            found = self._manifest(own["digest"])
        if found is None:
            raise TwinError(f"The twin's registry has no image {tag}.")
        return found[0], found[1]

    def _manifest(self, tag: str) -> tuple[Json, str, str] | None:
        """A manifest, its media type and its digest."""
        try:
            body, headers = self._call("GET", f"manifests/{tag}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise TwinError(f"The twin's registry answered with status {error.code}.") from None
        return json.loads(body), headers["Content-Type"], headers["Docker-Content-Digest"]

    def _call(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None
    ) -> tuple[bytes, t.Mapping[str, str]]:
        url = path if path.startswith("http://") else f"{self.base}/{path}"
        headers = {"Accept": ACCEPTED, **({"Content-Type": kind} if kind else {})}
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            # A proxy that the machine uses for the world knows nothing of the twin.
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as response:
                return response.read(), response.headers
        except urllib.error.HTTPError as error:
            error.close()
            raise
        except OSError as error:
            raise TwinError(f"The twin's registry does not answer at {self.address}: {error}.") from None


def own_entry(index: Json) -> Json | None:
    """The entry of a list of manifests that is for this machine; None where there is no list."""
    for entry in index.get("manifests", []):
        if entry["platform"]["architecture"] == ARCHITECTURE:
            return t.cast(Json, entry)
    return None


def with_release(configuration: Json, release: str) -> Json:
    """An image's configuration that names this release."""
    result: Json = json.loads(json.dumps(configuration))
    for part in ("config", "container_config"):
        settings = result.get(part) or {}
        if settings.get("Env"):
            kept = [entry for entry in settings["Env"] if not entry.startswith("TRT_LLM_VERSION=")]
            settings["Env"] = [*kept, f"TRT_LLM_VERSION={release}"]
        if settings.get("Labels"):
            settings["Labels"]["org.opencontainers.image.version"] = release
    return result
