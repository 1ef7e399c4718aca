#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_log
short_description: Read the end of a model server's log, without its noise
version_added: 0.1.0
description:
  - Returns the last lines that the server wrote since it was last started.
  - Progress bars, overwritten lines, colours and lines that say nothing are left out, unless O(raw=true).
  - A log that is not there is no failure. RV(lines) is empty then, and RV(detail) says why.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  path:
    description:
      - The log. By default that of the deployment for which O(container) was made.
      - The older part is expected beside it, with C(.1) after its name.
    type: path
  state_directory:
    description:
      - The directory that holds the deployments. Needed without O(path).
    type: path
  container:
    description:
      - The container of the deployment. Where Docker cannot be asked for it, the log that was written to last is read.
    type: str
    default: dgx-spark-speculative
  socket:
    description:
      - The socket of the Docker Engine.
    type: path
    default: /var/run/docker.sock
  lines:
    description:
      - How many lines to return at most.
    type: int
    default: 200
  raw:
    description:
      - Whether to return the lines as they are in the file.
    type: bool
    default: false
  all_runs:
    description:
      - Whether to go back beyond the last start of the server.
    type: bool
    default: false
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Read the server's log
  dgx_spark.speculative.server_log:
    state_directory: "{{ ansible_facts['user_dir'] }}/.local/share/dgx-spark-speculative"
    lines: 50
  register: log
"""

RETURN = r"""
lines:
  description:
    - The lines, the oldest first.
  returned: success
  type: list
  elements: str
  sample: ["[TRT-LLM] [I] start MpiSession with 1 workers"]
path:
  description:
    - The log that was read. Null if none was found.
  returned: success
  type: str
  sample: /home/spark/.local/share/dgx-spark-speculative/single_eagle3/state/server.log
truncated:
  description:
    - Whether there is more than RV(lines).
  returned: success
  type: bool
  sample: true
detail:
  description:
    - A sentence on a log that is not there, is empty, or may not be the one that is meant. Null otherwise.
  returned: success
  type: str
  sample: null
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import deployment_directory
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import Engine, EngineError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.lines import last_lines

LOG = Path("state/server.log")


def newest_log(state_directory: Path) -> Path | None:
    """The log that was written to last."""
    logs = list(state_directory.glob(f"*/{LOG}"))
    return max(logs, key=lambda path: path.stat().st_mtime) if logs else None


def find_log(state_directory: Path, socket: str, container: str) -> tuple[Path | None, str | None]:
    """The log of what is in the serving slot, and a word on what is not as expected."""
    try:
        slot = Engine(socket).container(container)
    except (OSError, EngineError) as e:
        reason = str(getattr(e, "strerror", None) or e).rstrip(".")
        path = newest_log(state_directory)
        if path is None:
            return None, f"No server has left a log below {state_directory}."
        return path, f"Docker cannot be asked what is deployed ({reason}); this is the log that was written to last."
    labels = ((slot or {}).get("Config") or {}).get("Labels") or {}
    directory = deployment_directory(state_directory, labels)
    if directory is not None:
        return directory / LOG, None
    path = newest_log(state_directory)
    if path is None:
        return None, f"Nothing is deployed, and no server has left a log below {state_directory}."
    return path, "Nothing is deployed now; this is the log that was written to last."


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "state_directory": {"type": "path"},
            "container": {"type": "str", "default": "dgx-spark-speculative"},
            "socket": {"type": "path", "default": "/var/run/docker.sock"},
            "lines": {"type": "int", "default": 200},
            "raw": {"type": "bool", "default": False},
            "all_runs": {"type": "bool", "default": False},
        },
        required_one_of=[("path", "state_directory")],
        supports_check_mode=True,
    )
    params = module.params
    if params["lines"] < 1:
        module.fail_json(msg=f"lines is {params['lines']}, but at least 1 line has to be asked for.")
    path: Path | None
    detail: str | None = None
    if params["path"]:
        path = Path(params["path"])
    else:
        path, detail = find_log(Path(params["state_directory"]), params["socket"], params["container"])
    lines: list[str] = []
    truncated = False
    if path is not None:
        try:
            lines, truncated = last_lines(path, params["lines"], params["raw"], params["all_runs"])
            detail = detail if lines else f"The log {path} is empty; the server has not said anything yet."
        except FileNotFoundError:
            detail = f"There is no log {path}; the server was never started, or the log was removed."
        except OSError as e:
            detail = f"The log {path} cannot be read: {e.strerror or e}."
    module.exit_json(
        changed=False, lines=lines, path=None if path is None else str(path), truncated=truncated, detail=detail
    )


if __name__ == "__main__":
    main()
