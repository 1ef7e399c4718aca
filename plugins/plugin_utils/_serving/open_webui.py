# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Plan Open WebUI, a chat page for the model: its address, its API endpoint, and the lines for people."""

from __future__ import annotations

import typing as t

from ...module_utils._data.text import in_brackets
from ...module_utils._deployment.lines import command, wrap_text
from .._report.access import Reach
from .lifecycle import url_of

# Settings of Open WebUI. A user's own take precedence.
SETTINGS = {
    "ENABLE_OPENAI_API": "true",
    "ENABLE_OLLAMA_API": "false",
    "WEBUI_AUTH": "true",
    # No telemetry and no downloads: the image has all it needs.
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "true",
    "SCARF_NO_ANALYTICS": "true",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "OFFLINE_MODE": "true",
    # Its own limit, five minutes, would cut a long answer that waits behind another one.
    "AIOHTTP_CLIENT_TIMEOUT": "3600",
    # Generated requests (titles, tags) would share the queue with the user's own. Its settings can turn them on.
    "ENABLE_AUTOCOMPLETE_GENERATION": "false",
    "ENABLE_FOLLOW_UP_GENERATION": "false",
    "ENABLE_TAGS_GENERATION": "false",
    "PORT": "8080",
}


def plan(
    host: str,
    name: str,
    address: str,
    port: int,
    endpoint: str,
    reach: Reach,
    environment: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """Return the page's published address, its API endpoint and its container's environment.

    `reach` is the controller's connection to the host. `lines` are for the end of a run; the models that the container
    sees are appended to the last of them, `sees`.
    """
    shown, url = in_brackets(address), url_of(address, port)
    asks = f"{endpoint}/v1"
    if address.startswith("127.") or address == "::1":
        where = [f"{host}: Open WebUI is at {url}"]
        if not reach.local:
            where += ["", "  Or open an SSH tunnel:", *command(reach.tunnel(url)), ""]
    else:
        where = [
            f"{host}: Open WebUI is at http://{(reach.host or host) if address in ('0.0.0.0', '::') else shown}:{port}",
            "  Anyone who can reach that address may create an account, over plain HTTP. Create yours first.",
        ]
    return {
        "published": f"{shown}:{port}:8080",
        "url": url,
        "asks": asks,
        "environment": {**SETTINGS, "OPENAI_API_BASE_URL": asks, **environment},
        "lines": [
            *where,
            *wrap_text(
                "The first account that is made there becomes its administrator; accounts and chats stay in the volume "
                f"{name}.",
                "  ",
                "  ",
            ),
        ],
        "sees": f"  It asks {asks} with the key 'open-webui', and its container sees there: ",
    }
