# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run on a Spark: milliseconds to the first token, straight from the server and through the proxy, in turn.

    python3 first_token.py PROXY KEY_FILE ROUNDS

Prints the two medians as JSON. Every request has a connection of its own, and so, through the proxy, a handshake.
"""

from __future__ import annotations

import http.client
import json
import ssl
import statistics
import sys
import time
from pathlib import Path

WISH = json.dumps({"model": "gpt-oss-120b", "prompt": "The sky", "max_tokens": 2, "stream": True})


def first_token(connection: http.client.HTTPConnection, headers: dict[str, str]) -> float:
    """Milliseconds from before the connection until the first event."""
    start = time.perf_counter()
    connection.request("POST", "/v1/completions", WISH, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"status {answer.status}: {answer.read().decode()}")
    answer.readline()
    taken = 1000 * (time.perf_counter() - start)
    answer.read()
    connection.close()
    return taken


def main(proxy: str, key_file: str, rounds: int) -> None:
    # Whom it trusts costs the same.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    key = {"Authorization": f"Bearer {Path(key_file).read_text(encoding='ascii').strip()}"}
    direct, proxied = [], []
    for _round in range(rounds):
        direct.append(first_token(http.client.HTTPConnection("127.0.0.1", 8000, timeout=60), {}))
        proxied.append(first_token(http.client.HTTPSConnection(proxy, timeout=60, context=context), key))
    print(json.dumps({"direct": statistics.median(direct), "proxied": statistics.median(proxied)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
