#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_diagnosis
short_description: Find the cause of a deployment that does not work, and the fix
version_added: 0.1.0
description:
  - Reads the logs of the server and the kernel, Docker, the jobs, memory, disks, network and the record of the
    deployment. Compares them with a catalogue of known problems, and returns causes and fixes.
  - A source that cannot be read is listed in RV(sources), and all others are still read. The module also returns a
    result without Docker and without a deployment.
  - A failure that is not in the catalogue is V(unknown). A server is V(healthy) only if it generates text.
  - With O(bundle), writes an archive of the evidence for a public report. Tokens, keys and addresses are removed from
    it, and also the names of machine and user. Values of environment variables are removed, unless the variable is well
    known.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
    details:
      - Everything is read in check mode as well, but O(bundle) is not written.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - With O(bundle) each call writes a new archive.
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
options:
  container: {type: str, default: dgx-spark-speculative, description: "Name of the serving container."}
  state_directory: {type: path, default: ~/.local/share/dgx-spark-speculative,
    description: "Directory of the deployments."}
  cache_directory: {type: path, default: ~/.cache/huggingface/hub,
    description: "The C(hub) directory of the Hugging Face cache."}
  socket: {type: path, default: /var/run/docker.sock, description: "The Docker Engine's socket."}
  probe: {type: bool, default: true,
    description: "Whether to send the server a short test prompt. Without it, no server is V(healthy)."}
  failure_message: {type: str,
    description: "Message with which a run failed. It is compared with the catalogue as well. With it, the verdict is
      never V(healthy), even if a server generates text."}
  always_fail: {type: bool, default: false,
    description: "Whether the task always fails, with O(failure_message), which is then required. It is for the
      C(rescue) of a run. It prints RV(lines) before that if the verdict is V(problem). It fails in the same way if the
      host cannot be diagnosed."}
  host: {type: str, description: "Name of the host at the beginning of RV(lines)."}
  bundle: {type: path,
    description: "Path on the host for a redacted archive of the evidence (C(.tar.gz)). Its mode is V(0600)."}
  fetch_to: {type: str,
    description: "Path on the controller for that archive, which the host then does not keep. A relative path starts in
      the working directory. If the run has several hosts, each archive has the name of its host in its file name."}
notes:
  - The kernel's log can often be read only by root and the group C(adm).
"""

EXAMPLES = r"""
---
- name: Diagnose the deployment
  dgx_spark.speculative.deployment_diagnosis:
  register: diagnosis

- name: Print the diagnosis
  ansible.builtin.debug:
    msg: "{{ diagnosis.lines }}"

- name: Save the evidence for a report
  dgx_spark.speculative.deployment_diagnosis:
    fetch_to: report.tar.gz
"""

RETURN = r"""
verdict:
  description:
    - V(healthy) means that the server runs and generates text.
    - V(warning) means that nothing is broken and there are notes. The server may be stopped, loading or busy.
    - V(problem) means that a known cause was found.
    - V(unknown) means that the server does not work or could not be queried, and that no known cause was found.
    - V(nothing_deployed) means that there is no deployment.
  returned: success
  type: str
  sample: problem
findings:
  description: Findings, with the root cause first.
  returned: success
  type: list
  elements: dict
  contains:
    id: {type: str,
      description: "Name of the known problem, which is its anchor in C(docs/troubleshooting.md), or V(unknown)."}
    cause: {type: str, description: "Cause of the problem."}
    fix: {type: str, description: "Fix of the problem, as a sentence."}
    evidence: {type: str, description: "Line or fact that shows the problem."}
    where: {type: str, description: "Name of the source that contains the evidence."}
    source: {type: str, description: "Public page, thread or file that describes the problem."}
    severity: {type: str,
      description: "V(cause), V(hint) for a consequence or something possibly related, V(warning) or V(information)."}
  sample:
    - {id: docker_not_running, cause: Docker is installed but not running, severity: cause, where: docker,
       fix: "Start it with 'sudo systemctl start docker'. 'journalctl -u docker' shows why it stopped.",
       evidence: "/var/run/docker.sock: No such file or directory", source: Docker documentation}
lines: {returned: success, type: list, elements: str, sample: [problem found],
  description: "The diagnosis as text, with one line for the verdict and for each finding."}
sources:
  description: Sources of the diagnosis. C(read) says whether a source could be read, and C(detail) is the reason if
    not, or a note about it.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: kernel log, read: false, detail: "dmesg: read kernel buffer failed: Operation not permitted"}
deployment: {returned: success, type: str, sample: single_eagle3,
  description: "Name of the deployment in the serving container. Null if there is none."}
state: {returned: success, type: str, sample: running,
  description: "State that the supervisor reports, V(absent) without a container. Null if unknown."}
container: {returned: success, type: dict, sample: {state: running},
  description: "The container, with its C(state) as Docker reports it. Null without one, or if Docker is not usable."}
cluster: {returned: success, type: dict, sample: null,
  description: "Place of this Spark in its cluster, with C(rank), C(role) and C(nodes). C(options) is a fingerprint of
    image and engine options. Null for a single Spark."}
machine: {returned: success, type: dict, sample: {driver: 580.95.05, kernel: 6.17.0-1008-nvidia},
  description: "Versions that all Sparks of a cluster should share, C(driver) and C(kernel)."}
bundle: {returned: success, type: str, sample: /tmp/report.tar.gz,
  description: "Path of the archive. Null if none was written."}
"""

import dataclasses
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._deployment.cluster_view import OPTIONS_LABEL
from ..module_utils._deployment.records import LABEL, FormatError, require_format
from ..module_utils._diagnosis import bundle as _bundle
from ..module_utils._diagnosis.diagnosis import diagnose
from ..module_utils._diagnosis.evidence import Evidence, EvidenceGatherer
from ..module_utils._diagnosis.redaction import Redactor, hide_everywhere, secrets_of
from ..module_utils._docker.access import Machine


def hidden(evidence: Evidence, redactor: Redactor) -> Evidence:
    """Return the evidence without secrets in what is quoted from it."""
    texts = (
        "failure",
        "docker_detail",
        "docker_log",
        "server_log",
        "failed_log",
        "job_logs",
        "jobs",
        "state",
        "ranks",
        "gpu_error",
    )
    values = {name: hide_everywhere(getattr(evidence, name), redactor) for name in texts}
    kernel, oomd = (
        [line._replace(text=redactor.hide(line.text)) for line in lines] for lines in (evidence.kernel, evidence.oomd)
    )
    return dataclasses.replace(evidence, **values, kernel=kernel, oomd=oomd)


def identity(evidence: Evidence) -> dict[str, t.Any]:
    """Return the facts of one Spark that are compared with those of others."""
    labels = evidence.labels
    status = ((evidence.slot or {}).get("State") or {}).get("Status")
    cluster = evidence.cluster
    return {
        "deployment": labels.get(f"{LABEL}deployment"),
        "state": "absent" if evidence.docker == "usable" and evidence.slot is None else evidence.said or None,
        "container": {"state": status} if evidence.slot is not None else None,
        "cluster": cluster
        and {
            "rank": cluster.rank,
            "role": cluster.role,
            "nodes": list(cluster.nodes),
            "options": labels.get(OPTIONS_LABEL),
        },
        "machine": {"driver": evidence.gpu_driver or None, "kernel": evidence.kernel_release or None},
    }


def act(params: dict[str, t.Any], machine: Machine, check_mode: bool) -> dict[str, t.Any]:
    """Gather the evidence, diagnose it, and write the archive if `bundle` is set."""
    cache = Path(params["cache_directory"])
    evidence = EvidenceGatherer(params, machine).gather()
    require_format(evidence.labels, evidence.record)
    # Lines of a log are shown on a screen. A secret of several lines is found only while they stand together.
    redactor = Redactor(secrets_of(machine.home, cache, (), evidence.user))
    diagnosis = diagnose(hidden(evidence, redactor), params["host"] or "")
    written = bool(params["bundle"]) and not check_mode
    if written:
        _bundle.make(Path(params["bundle"]), evidence, diagnosis, cache, machine.home, [params["host"] or ""])
    told = {
        "findings": [finding.as_result() for finding in diagnosis.findings],
        "lines": list(diagnosis.lines),
        "sources": [source._asdict() for source in evidence.sources],
    }
    return {
        "changed": bool(params["bundle"]),
        "verdict": diagnosis.verdict,
        **hide_everywhere(told, redactor),
        **identity(evidence),
        "bundle": params["bundle"] if written else None,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "container": {"type": "str", "default": "dgx-spark-speculative"},
            "state_directory": {"type": "path", "default": "~/.local/share/dgx-spark-speculative"},
            "cache_directory": {"type": "path", "default": "~/.cache/huggingface/hub"},
            "socket": {"type": "path", "default": "/var/run/docker.sock"},
            "probe": {"type": "bool", "default": True},
            "failure_message": {"type": "str"},
            "always_fail": {"type": "bool", "default": False},
            "host": {"type": "str"},
            "bundle": {"type": "path"},
            # The action sees to this, and to a task that fails.
            "fetch_to": {"type": "str"},
        },
        required_if=[("always_fail", True, ["failure_message"])],
        supports_check_mode=True,
    )
    try:
        module.exit_json(**act(module.params, Machine(), module.check_mode))
    except FormatError as e:
        module.fail_json(msg=str(e))
    except OSError as e:
        module.fail_json(
            msg=f"Writing the bundle {module.params['bundle']} failed ({e.strerror or e}); choose another path."
        )


if __name__ == "__main__":
    main()
