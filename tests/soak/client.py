# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client that never tires, as a program for a Spark: asks, one line of JSON for each question and each answer.

It asks for a text, in a chat, and in a chat with a tool. Arguments: port, model, seed, seconds until it gives up, and
as JSON the prompts by route, and the tools.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import time
import typing as t

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions", "tools": "/v1/chat/completions"}


def ask(port: int, question: dict[str, t.Any], patience: float, path: str = PATHS["completions"]) -> dict[str, t.Any]:
    """Return what came back: status, text, thoughts, calls, which model, why it finished, how the connection ended."""
    found: dict[str, t.Any] = {"status": None, "text": "", "thinking": "", "calls": [], "finish": None}
    found["model"] = None
    found["ended"] = "whole"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request("POST", path, json.dumps(question), {"Content-Type": "application/json"})
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
    """Read an answer; a stream that ends in order without its last word is no whole one."""
    events = [line[6:] for line in body.splitlines() if line.startswith("data: ")] if stream else [body]
    for event in events:
        if event == "[DONE]":
            continue
        content = json.loads(event)
        found["model"] = content.get("model")
        # The last event of a chat has the usage and nothing else.
        if stream and content["choices"] == [] and "usage" in content:
            continue
        choice = content["choices"][0]
        part = choice["delta"] if "delta" in choice else choice.get("message")
        add(found, {"content": choice["text"]} if part is None else part)
        found["finish"] = choice.get("finish_reason") or found["finish"]
    if stream and events[-1:] != ["[DONE]"]:
        found["finish"] = None


def add(found: dict[str, t.Any], part: dict[str, t.Any]) -> None:
    found["text"] += part.get("content") or ""
    found["thinking"] += part.get("reasoning") or part.get("reasoning_content") or ""
    for call in part.get("tool_calls") or ():
        found["calls"].append([call["function"]["name"], call["function"]["arguments"]])


def question(model: str, route: str, asked: dict[str, t.Any], tools: list[t.Any]) -> dict[str, t.Any]:
    common = {"model": model, "max_tokens": asked["max_tokens"], "temperature": 0}
    if route == "completions":
        return {**common, "prompt": asked["prompt"]}
    chat = {**common, "messages": [{"role": "user", "content": asked["prompt"]}]}
    return {**chat, "tools": tools} if route == "tools" else chat


def main() -> None:
    port, model, seed, patience, prompts, tools = sys.argv[1:]
    luck = random.Random(seed)
    given = json.loads(prompts)
    # Most ask for a text.
    routes = [route for route in given for _ in range(3 if route == "completions" else 1)]
    for number in range(10**9):
        route = luck.choice(routes)
        least = 60 if route == "tools" else 10
        asked = {"id": number, "route": route, "prompt": luck.choice(given[route])}
        asked["max_tokens"] = luck.randint(least, 90)
        print(json.dumps({"kind": "asked", **asked}), flush=True)
        sent = {**question(model, route, asked, json.loads(tools)), "stream": luck.random() < 0.6}
        found = ask(int(port), sent, float(patience), PATHS[route])
        print(json.dumps({"kind": "answered", **asked, **found}), flush=True)
        time.sleep(luck.uniform(0.2, 0.8))


if __name__ == "__main__":
    main()
