# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask an OpenAI-compatible endpoint for its models from inside a container, and print their names."""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import typing as t
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

KEY = Path("/run/secrets/api_key")
TIMEOUT_S = 10


class EndpointError(Exception):
    """One sentence or two for the user."""


def unreachable(base_url: str, reason: object) -> str:
    port = urllib.parse.urlsplit(base_url).port or 80
    return (
        f"A container gets no answer from {base_url} ({reason}). If a firewall such as ufw is on, let containers in "
        f"with 'sudo ufw allow in on docker0 to any port {port} proto tcp', then run again."
    )


def refused(base_url: str, status: int) -> str:
    remedy = {
        401: "it does not know the key of Open WebUI; run open_webui.yml again, which makes and loads one",
        502: "nothing serves behind it; status.yml says what the server does",
        503: "nothing serves behind it; status.yml says what the server does",
    }.get(status, "it is no endpoint of this collection; correct open_webui_endpoint")
    return f"{base_url}/models answers a container with status {status}: {remedy}."


def ask(base_url: str, key: str) -> list[str]:
    """The names of the models."""
    request = urllib.request.Request(f"{base_url}/models", headers={"Authorization": f"Bearer {key}"})
    # Proxies that Docker puts into every container's environment do not know the Spark's own addresses.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as response:
            answer: t.Any = json.loads(response.read())
        names = [str(model["id"]) for model in answer["data"]]
    except urllib.error.HTTPError as e:
        raise EndpointError(refused(base_url, e.code)) from None
    except (OSError, http.client.HTTPException) as e:
        raise EndpointError(unreachable(base_url, getattr(e, "reason", None) or e)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise EndpointError(f"{base_url}/models does not answer a container with a list of models.") from None
    if not names:
        raise EndpointError(f"{base_url}/models lists no model; status.yml says what the server does.")
    return names


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key", type=Path, default=KEY, help="the file with the key")
    parser.add_argument("base_url", help="the address of the API, with /v1")
    options = parser.parse_args(arguments)
    try:
        key = options.key.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as e:
        print(f"The key in {options.key} cannot be read inside the container ({getattr(e, 'strerror', None) or e}).")
        return 1
    try:
        print("\n".join(ask(options.base_url, key)))
    except EndpointError as e:
        print(e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
