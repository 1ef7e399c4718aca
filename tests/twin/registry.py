# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The twin's image registry, spoken to on this machine's loopback address."""

from __future__ import annotations

import hashlib
import json
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from tests.twin.names import RELEASE_REPOSITORY, TwinError

Json = dict[str, t.Any]

KINDS = ("docker.distribution.manifest.v2", "oci.image.manifest.v1", "oci.image.index.v1")
ACCEPTED = ", ".join(f"application/vnd.{kind}+json" for kind in KINDS)


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
        # The id of an image is the digest of its configuration or of its manifest, as the engine stores images.
        manifest, _, digest = found
        return {manifest.get("config", {}).get("digest", ""), digest}

    def add_release(self, base: str, tag: str, release: str) -> bool:
        """Have the image of one tag under another, telling that it is this release; whether that was news.

        Only the configuration differs, so that neither a build nor another copy of the layers is needed.
        """
        manifest, kind = self._image(base)
        configuration = json.loads(self._call("GET", f"blobs/{manifest['config']['digest']}")[0])
        content = json.dumps(with_release(configuration, release), sort_keys=True).encode()
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
        if found is not None and "manifests" in found[0]:
            found = self._manifest(found[0]["manifests"][0]["digest"])
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
