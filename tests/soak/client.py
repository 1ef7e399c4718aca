# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client that never tires, as a program for a Spark: asks, one line of JSON for each question and each answer.

Arguments: port, model, seed, seconds until it gives up, prompts as JSON.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import time
import typing as t


def ask(port: int, question: dict[str, t.Any], patience: float) -> dict[str, t.Any]:
    """What came back: its status, its text, why it finished, and how the connection ended."""
    found: dict[str, t.Any] = {"status": None, "text": "", "finish": None, "ended": "whole"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request("POST", "/v1/completions", json.dumps(question), {"Content-Type": "application/json"})
        response = connection.getresponse()
        found["status"] = response.status
        body = response.read().decode()
        if response.status == 200:
            read(found, body, question["stream"])
    except TimeoutError:
        found["ended"] = "gave up"
    except (OSError, http.client.HTTPException) as error:
        found["ended"] = "refused" if found["status"] is None else "broken"
        found["error"] = type(error).__name__
    except (ValueError, KeyError, IndexError, TypeError) as error:
        found["ended"], found["error"] = "garbled", f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return found


def read(found: dict[str, t.Any], body: str, stream: bool) -> None:
    """A stream that ends in order without its last word is no whole answer."""
    events = [line[6:] for line in body.splitlines() if line.startswith("data: ")] if stream else [body]
    for event in events:
        if event != "[DONE]":
            choice = json.loads(event)["choices"][0]
            found["text"] += choice["text"]
            found["finish"] = choice["finish_reason"] or found["finish"]
    if stream and events[-1:] != ["[DONE]"]:
        found["finish"] = None


def main() -> None:
    port, model, seed, patience, prompts = sys.argv[1:]
    luck = random.Random(seed)
    for number in range(10**9):
        asked = {"id": number, "prompt": luck.choice(json.loads(prompts)), "max_tokens": luck.randint(10, 90)}
        print(json.dumps({"kind": "asked", **asked}), flush=True)
        question = {"model": model, "prompt": asked["prompt"], "max_tokens": asked["max_tokens"], "temperature": 0}
        found = ask(int(port), {**question, "stream": luck.random() < 0.6}, float(patience))
        print(json.dumps({"kind": "answered", **asked, **found}), flush=True)
        time.sleep(luck.uniform(0.2, 0.8))


if __name__ == "__main__":
    main()
