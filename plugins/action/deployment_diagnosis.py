# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import re
import typing as t
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._deployment.lines import fit_lines

display = Display()

# Path of the archive on a host that must not keep it.
ON_THE_WAY = "~/.dgx-spark-diagnosis.tar.gz"

ABOUT = "About the failure below:"
# The name of a row, and the source of the evidence that the failure is itself.
LABEL = re.compile(r"^  (?:cause|evidence|fix) +(?:the message: (?:\S+: )?)?")


def bundle_path(where: str, host: str, hosts: t.Sequence[str]) -> Path:
    """Return the path of an archive, relative to the working directory. With several hosts, each has its own file."""
    path = Path.cwd() / Path(where).expanduser()
    return path if len(hosts) == 1 else Path(re.sub(r"([.]tar[.]gz|[.]tgz)$", "", str(path)) + f"-{host}.tar.gz")


def new_lines(lines: t.Sequence[str], message: str) -> list[str]:
    """Return the lines of a diagnosis that the message of the failure does not have already."""
    known = " ".join(message.split())
    new = [line for line in lines[1:] if LABEL.sub("", line).rstrip(".") not in known]
    return [lines[0] if len(new) == len(lines) - 1 else ABOUT, *new] if new else []


class ActionModule(ActionBase):
    """Find the cause on the host, and fetch the bundle to the controller."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        variables, arguments = dict(task_vars or {}), dict(self._task.args)
        # Without its failure the module refuses that.
        if boolean(arguments.get("always_fail") or False) and arguments.get("failure_message") is not None:
            return self._failure_result(arguments, variables)
        wanted = str(arguments.get("fetch_to") or "")
        if wanted and not arguments.get("bundle"):
            arguments["bundle"] = ON_THE_WAY
        result = dict(self._execute_module(module_args=arguments, task_vars=variables))
        if not wanted or not result.get("bundle"):
            return result
        host = str(variables.get("inventory_hostname", self._play_context.remote_addr))
        path = bundle_path(wanted, host, variables.get("ansible_play_hosts_all") or [host])
        failed = self._fetch_bundle(str(result["bundle"]), path, variables)
        text = f"  The evidence is in {path}; look through it before you give it away."
        return failed or {**result, "bundle": str(path), "lines": [*result["lines"], text]}

    def _failure_result(self, arguments: dict[str, t.Any], variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """Fail as the run did, whose own message must not get lost behind a diagnosis that fails."""
        try:
            result = dict(self._execute_module(module_args=arguments, task_vars=variables))
        except AnsibleError:
            result = {}
        message = str(arguments["failure_message"])
        if result.get("verdict") == "problem" and (lines := new_lines(result["lines"], message)):
            display.display("\n" + "\n".join(fit_lines(lines)) + "\n")
        return {"failed": True, "changed": False, "msg": message}

    def _fetch_bundle(self, source: str, path: Path, variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """Fetch the archive and remove it from the host. Return the error, or an empty text."""
        try:
            read = dict(self._execute_module("ansible.legacy.slurp", {"src": source}, task_vars=variables))
            if read.get("failed"):
                return read
            path.parent.mkdir(parents=True, exist_ok=True)
            # To be read by its owner only, from the first byte on.
            path.touch(mode=0o600)
            path.chmod(0o600)
            path.write_bytes(base64.b64decode(read["content"]))
        except OSError as error:
            return {"failed": True, "msg": f"Writing the bundle {path} failed ({error.strerror}); choose another path."}
        finally:
            self._execute_module("ansible.legacy.file", {"path": source, "state": "absent"}, task_vars=variables)
        return {}
