# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Use the twin's image registry through this machine's loopback address."""

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
    """A repository of the registry at this address."""

    def __init__(self, address: str, repository: str = RELEASE_REPOSITORY) -> None:
        self.address = address
        self.base = f"http://{address}/v2/{repository}"

    def ids(self, tag: str) -> set[str]:
        """Return the possible image ids of this tag; empty if the tag does not exist."""
        found = self._manifest(tag)
        if found is None:
            return set()
        manifest, _, digest = found
        own = own_entry(manifest)
        # An image id is the digest of the configuration or of the manifest, depending on the image store.
        return {digest} | (self.ids(own["digest"]) if own else {manifest["config"]["digest"]})

    def add_release(self, base: str, tag: str, release: str) -> bool:
        """Add a tag with the image of another one, but this release. Return whether it was new."""
        return self._add(base, tag, lambda configuration: with_release(configuration, release))

    def add_foreign(self, base: str, tag: str) -> bool:
        """Add a tag with the image of another one, but for another architecture. Return whether it was new."""
        return self._add(base, tag, lambda configuration: {**configuration, "architecture": FOREIGN_ARCHITECTURE})

    def offer_both(self, tag: str, foreign: str) -> bool:
        """Make a tag an index of its image and one for another architecture. Return whether it was new."""
        found = self._manifest(tag)
        own = own_entry(found[0]) if found else None
        # The foreign one is first, so that code that uses the first entry fails.
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
        """Add a tag that differs only in the configuration, which needs neither a build nor copies of the layers."""
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
        """Return the manifest of a tag and its media type, from the index if there is one."""
        found = self._manifest(tag)
        own = own_entry(found[0]) if found else None
        if own:
            found = self._manifest(own["digest"])
        if found is None:
            raise TwinError(f"The twin's registry has no image {tag}.")
        return found[0], found[1]

    def _manifest(self, tag: str) -> tuple[Json, str, str] | None:
        """Return a manifest, its media type and its digest."""
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
            # The machine's proxy cannot reach the twin.
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as response:
                return response.read(), response.headers
        except urllib.error.HTTPError as error:
            error.close()
            raise
        except OSError as error:
            raise TwinError(f"The twin's registry does not answer at {self.address}: {error}.") from None


def own_entry(index: Json) -> Json | None:
    """Return the entry of an index for this machine; None if it is no index."""
    for entry in index.get("manifests", []):
        if entry["platform"]["architecture"] == ARCHITECTURE:
            return t.cast(Json, entry)
    return None


def with_release(configuration: Json, release: str) -> Json:
    """Return an image's configuration with this release."""
    result: Json = json.loads(json.dumps(configuration))
    for part in ("config", "container_config"):
        settings = result.get(part) or {}
        if settings.get("Env"):
            kept = [entry for entry in settings["Env"] if not entry.startswith("TRT_LLM_VERSION=")]
            settings["Env"] = [*kept, f"TRT_LLM_VERSION={release}"]
        if settings.get("Labels"):
            settings["Labels"]["org.opencontainers.image.version"] = release
    return result
