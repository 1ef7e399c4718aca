# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""A chat page for the model: where it is, what it asks, and what people are told of it."""

from __future__ import annotations

import re
import typing as t


def plan(host: str, name: str, address: str, port: int, endpoint: str, reached_as: str, user: str) -> dict[str, t.Any]:
    """Say where the page is published and reached, and what it asks.

    reached_as and user are how the controller gets to the host. The lines are for the end of a run; the last of them,
    sees, is to be completed by the models that a container sees.
    """
    # As a URL and Docker have it.
    shown = f"[{address}]" if ":" in address else address
    # On every address, it is on the loopback address too.
    url = f"http://{ {'0.0.0.0': '127.0.0.1', '::': '[::1]'}.get(address, shown) }:{port}"
    asks = f"{re.sub(r'/(v1/?)?$', '', endpoint)}/v1"
    if address.startswith("127.") or address == "::1":
        tunnel = f"ssh -N -L {port}:127.0.0.1:{port} {user}{'@' if user else ''}{reached_as}"
        where = [
            f"{host}: Open WebUI is at {url}",
            f"  From another machine, after {tunnel}, it is at http://127.0.0.1:{port}.",
        ]
    else:
        where = [
            f"{host}: Open WebUI is at http://{reached_as if address in ('0.0.0.0', '::') else shown}:{port}",
            "  Whoever reaches that address may make an account, over plain HTTP. Be the first.",
        ]
    return {
        "published": f"{shown}:{port}:8080",
        "url": url,
        "asks": asks,
        "lines": [
            *where,
            "  The first account that is made there becomes its administrator; accounts and chats stay in the volume "
            f"{name}.",
        ],
        "sees": f"  It asks {asks} with the key 'open-webui', and a container sees there: ",
    }
