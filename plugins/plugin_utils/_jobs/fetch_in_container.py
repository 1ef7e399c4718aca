# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Run fetch_models.py in a container without a GPU, and pass on its output. A program for a watched job.

The only argument is a JSON object: image, user (uid:gid), cache and receipts (directories of the host) and spec (the
argument of fetch_models.py). The standard input is another one: token, and files, by model. The same program runs in
the container, with the arguments `inside` and spec, and the same standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

from . import fetch_models
from .progress import emit

INSIDE = "inside"
CONTAINER = "dgx-spark-speculative-fetch"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def command(job: dict[str, t.Any], program: Path, environment: t.Mapping[str, str]) -> list[str]:
    """Return the docker command line. It has no secret, because all users of the host can read it."""
    proxies = [part for name in PROXY_VARIABLES if name in environment for part in ("--env", name)]
    return [
        *("docker", "run", "--rm", "--interactive", "--name", CONTAINER, "--pull", "never"),
        # Nothing of the output is left behind in Docker's logs.
        *("--log-driver", "none"),
        *("--network", "host", "--cap-drop", "ALL", "--user", job["user"]),
        *("--volume", f"{job['cache']}:{job['spec']['cache']}"),
        *("--volume", f"{job['receipts']}:{job['spec']['receipts']}"),
        *("--volume", f"{program}:/fetch.pyz:ro"),
        *("--env", "HOME=/tmp", "--env", "HF_HOME=/tmp/hf", *proxies),
        # The image's own entrypoint prints a banner.
        *("--entrypoint", "python3", job["image"], "/fetch.pyz", INSIDE, json.dumps(job["spec"])),
    ]


def remove_container() -> None:
    """Remove the container, also one that an earlier, killed job left behind."""
    quiet = subprocess.DEVNULL
    subprocess.run(["docker", "rm", "--force", CONTAINER], stdin=quiet, stdout=quiet, stderr=quiet, check=False)


class Errors(threading.Thread):
    """Copies the container's standard error into the log and remembers its last line."""

    def __init__(self, stream: t.IO[str]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self.last = ""

    def run(self) -> None:
        for line in self._stream:
            sys.stderr.write(line)
            # Docker ends its complaints with a hint that explains nothing.
            if line.strip() and not line.startswith("See 'docker"):
                self.last = line.strip()


def is_final(line: str) -> bool:
    try:
        message = json.loads(line)
    except ValueError:
        return False
    return isinstance(message, dict) and bool(message.keys() & {"result", "error"})


def complaint(image: str, code: int, last: str) -> str:
    """Return why a container ended without a message of its own."""
    if "No such image" in last or "Unable to find image" in last:
        return f"The image {image} to download models with is not on this host: pull it first"
    if code in (137, 143):
        return "The container that downloads models was ended from outside: run again, which continues where this ended"
    return f"The container that downloads models (image {image}) ended with exit code {code}: {last or 'no message'}"


def main() -> int:
    if sys.argv[1] == INSIDE:
        return fetch_models.main(json.loads(sys.argv[2]), **json.load(sys.stdin))
    job = json.loads(sys.argv[1])
    # It is not among the arguments, where all users would see the token, and where a long list of files has no room.
    told = sys.stdin.read()
    # The zip application that runs. It is the login user's, as whom the container runs.
    program = Path(sys.path[0])

    def end(_number: int, _frame: object) -> t.NoReturn:
        remove_container()
        os._exit(143)

    signal.signal(signal.SIGTERM, end)
    try:
        remove_container()
        process = subprocess.Popen(
            command(job, program, os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        emit({"error": "Models are downloaded in a container, but this host has no docker command"})
        return 1
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ValueError("the container has to be started with pipes")
    errors = Errors(process.stderr)
    errors.start()
    # A container that does not start reads nothing; its reason is reported below.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(told)
        process.stdin.close()
    final = False
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            final = final or is_final(line)
    finally:
        # The job's supervisor was killed: the download must end with it.
        if process.poll() is None and not final:
            remove_container()
    code = process.wait()
    errors.join()
    if not final:
        emit({"error": complaint(job["image"], code, errors.last)})
    return code if final else 1


if __name__ == "__main__":
    sys.exit(main())
