#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_diagnosis
short_description: Say why a deployment does not serve
version_added: 0.1.0
description:
  - Reads the server's logs, the kernel's log, Docker, the jobs that download, memory, disks, network and the
    deployment's record, compares them with a catalogue of known causes, and says what is wrong and what to do.
  - What cannot be read is named in RV(sources) and costs nothing else. No Docker and no deployment are answers, too.
  - A failure that the catalogue does not know is V(unknown). A server is V(healthy) only if it generates.
  - With O(bundle) it writes an archive of the evidence for a public report. Tokens, keys, addresses, and the names of
    the machine and of the user are taken out, and so are the values of environment variables that are not well known.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
attributes:
  check_mode:
    support: full
    details:
      - Everything is read in check mode as well, and O(bundle) is not written.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - With O(bundle) each call writes a new archive.
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
options:
  container:
    description:
      - The container of the serving slot.
    type: str
    default: dgx-spark-speculative
  state_directory:
    description:
      - Where deployments live. The default is C(~/.local/share/dgx-spark-speculative).
    type: path
    default: ~/.local/share/dgx-spark-speculative
  cache_directory:
    description:
      - The C(hub) directory of the Hugging Face cache.
    type: path
    default: ~/.cache/huggingface/hub
  socket:
    description:
      - The Docker Engine's socket.
    type: path
    default: /var/run/docker.sock
  probe:
    description:
      - Whether to ask the server for a short completion. Without it nothing is called V(healthy).
    type: bool
    default: true
  failure_message:
    description:
      - The message with which a run failed. It is matched as well, and something is wrong then even if a server
        generates.
    type: str
  always_fail:
    description:
      - For the C(rescue) of a run; needs O(failure_message). The task fails with that in any case, also where the host
        cannot be looked at, and first shows RV(lines) where they tell of a problem.
    type: bool
    default: false
  host:
    description:
      - A name to begin RV(lines) with.
    type: str
  bundle:
    description:
      - Where on the host to write a redacted archive of the evidence (C(.tar.gz)). Its mode is V(0600).
    type: path
  fetch_to:
    description:
      - Where on the controller to have that archive; the host does not keep it then. A relative path is one from where
        the command was given. Where several hosts are in the run, each has a file of its own, with its name.
    type: str
notes:
  - The kernel's log can often be read by root and the group C(adm) only.
"""

EXAMPLES = r"""
---
- name: Find out why nothing serves
  dgx_spark.speculative.deployment_diagnosis:
  register: diagnosis

- name: Show it
  dgx_spark.speculative.report:
    lines: "{{ diagnosis.lines }}"

- name: Gather what a report needs
  dgx_spark.speculative.deployment_diagnosis:
    fetch_to: report.tar.gz
"""

RETURN = r"""
verdict:
  description:
    - V(healthy) means that the server runs and generates.
    - V(warning) means that nothing is broken and there are notes. The server may be stopped, loading or busy.
    - V(problem) means that a known cause was found.
    - V(unknown) means that it does not serve, or could not be asked, and no known cause was found.
    - V(nothing_deployed) means that there is no deployment.
  returned: success
  type: str
  sample: problem
findings:
  description:
    - What was recognised, the root cause first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description:
        - Name of the known problem, which is its anchor in C(docs/troubleshooting.md), or V(unknown).
      type: str
    cause:
      description:
        - What is wrong.
      type: str
    fix:
      description:
        - What to do.
      type: str
    evidence:
      description:
        - The line or the fact that shows it.
      type: str
    where:
      description:
        - Where that was found.
      type: str
    source:
      description:
        - The public page, thread or file that tells of it.
      type: str
    severity:
      description:
        - V(cause), V(hint) if it is a consequence or may have to do with it, V(warning) or V(information).
      type: str
  sample:
    - id: docker_not_running
      cause: Docker is installed but not running
      fix: Start it with 'sudo systemctl start docker'. 'journalctl -u docker' shows why it stopped.
      evidence: "/var/run/docker.sock: No such file or directory"
      where: docker
      source: Docker documentation
      severity: cause
lines:
  description:
    - The report for people, one line for the verdict and for each row.
  returned: success
  type: list
  elements: str
  sample:
    - problem found
sources:
  description:
    - What was looked at.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description:
        - What it is.
      type: str
    read:
      description:
        - Whether it could be read.
      type: bool
    detail:
      description:
        - Why it could not be read, or a note about it.
      type: str
  sample:
    - name: kernel log
      read: false
      detail: "dmesg: read kernel buffer failed: Operation not permitted"
deployment:
  description:
    - The name of the deployment in the serving slot. Null if there is none.
  returned: success
  type: str
  sample: single_eagle3
state:
  description:
    - State that the supervisor reports, V(absent) without a container. Null if unknown.
  returned: success
  type: str
  sample: running
container:
  description:
    - Docker's word for the C(state) of the container. Null without one, or if Docker cannot be asked.
  returned: success
  type: dict
  sample:
    state: running
cluster:
  description:
    - Which of several Sparks that serve as one this is, with C(rank), C(role), C(nodes) and C(options), a fingerprint
      of image and engine options. Null for one Spark alone.
  returned: success
  type: dict
  sample: null
machine:
  description:
    - What two Sparks should have in common, C(driver) and C(kernel).
  returned: success
  type: dict
  sample:
    driver: 580.95.05
    kernel: 6.17.0-1008-nvidia
bundle:
  description:
    - The archive that was written. Null if none was.
  returned: success
  type: str
  sample: /tmp/report.tar.gz
"""

import dataclasses
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.cluster_view import OPTIONS_LABEL
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import (
    LABEL,
    FormatError,
    require_format,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis import bundle as _bundle
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis.diagnosis import diagnose
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis.evidence import (
    Evidence,
    EvidenceGatherer,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._diagnosis.redaction import (
    Redactor,
    hide_everywhere,
    secrets_of,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import Machine


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
    """Gather, judge, and write the archive if one is wanted."""
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
