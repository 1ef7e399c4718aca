#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_info
short_description: Gather the state of a deployment on a Spark, or the log of its server
version_added: 0.1.0
description:
  - Gathers the deployment, the state of the server, its speed, and the use of memory and disk. It can also return the
    server's log. A subset that is not in O(gather) is neither gathered nor returned.
  - A value that cannot be determined is null. RV(not_checked) or RV(log.detail) then gives the reason. The module also
    returns a result without Docker, without a deployment, or with an incomplete deployment.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
attributes:
  check_mode:
    details:
      - The probe is sent in check mode as well. Its answer takes the server one or two seconds.
options:
  gather:
    description:
      - The subsets to gather.
      - V(status) is everything but the log. A running container does not prove that the server works, so the module
        sends it a short probe, unless O(probe=false). It also inspects Docker, the records, the models and the memory.
      - V(log) is the end of the server's log. Only Docker and the log are inspected. See RV(log).
    type: list
    elements: str
    choices: [status, log]
    default: [status]
  log:
    description: Selection of the lines that V(log) in O(gather) returns.
    type: dict
    suboptions:
      lines: {type: int, default: 200, description: "Maximum number of lines, at least 1."}
      raw: {type: bool, default: false,
        description: "Whether to return the lines unchanged. Otherwise progress bars, overwritten lines, colours and
          lines without information are left out."}
      all_runs: {type: bool, default: false,
        description: "Whether to include lines from before the last start of the server."}
  container: {type: str, default: dgx-spark-speculative, description: "Name of the serving container."}
  state_directory: {type: path, default: ~/.local/share/dgx-spark-speculative,
    description: "Directory of the deployments. The default is that of the roles, in the home of the user who runs the
      task."}
  cache_directory: {type: path, default: ~/.cache/huggingface/hub,
    description: "The C(hub) directory of the Hugging Face cache."}
  receipts_directory: {type: path,
    description: "Directory of the receipts of the models. The default is C(models) in O(state_directory)."}
  socket: {type: path, default: /var/run/docker.sock, description: "The socket of the Docker Engine."}
  probe: {type: bool, default: true,
    description: "Whether to send the server a probe for a few tokens. Without it, RV(state=ready) means only that
      C(/health) and C(/v1/models) answer. No probe is sent while a benchmark measures the server."}
  answer_timeout: {type: float, default: 40, description: "Maximum seconds for the answer to the probe."}
  wait_for_port:
    description: Port on which a worker's container listens for the head; with TensorRT-LLM an SSH server. The task
      waits until it accepts connections, and gathers nothing else. If it does not in time, the task fails with
      RV(reason).
    type: dict
    suboptions:
      address: {type: str, required: true, description: "IP address of the port on this host."}
      port: {type: int, required: true, description: "Its number."}
      timeout: {type: float, default: 60, description: "Maximum seconds to wait."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.completions_probe
"""

EXAMPLES = r"""
---
- name: Gather the state of the deployment
  dgx_spark.speculative.deployment_info:
  register: status

- name: Print the state
  ansible.builtin.debug:
    msg: "{{ status.lines }}"

- name: Read the last 50 lines of the server's log
  dgx_spark.speculative.deployment_info:
    gather: [log]
    log:
      lines: 50
  register: result
"""

RETURN = r"""
state:
  description:
    - State of the deployment. Null if it cannot be determined.
    - V(absent) means that there is no container, V(stopped) that it does not run. V(loading) means that the server was
      started and does not listen yet.
    - V(ready) means that the server generates text. V(ready_without_speculation) means that it generates text, but
      accepts no draft. V(busy) means that no token arrived in time, for example because it serves another request.
    - V(trial) means that a benchmark runs the server with other engine options for a limited time. RV(reason) says
      whether this server answers, loads or has ended. RV(jobs) contains the progress of the benchmark.
    - V(unhealthy) means that the server listens, but cannot generate text. V(dead) means that it exited, V(failed) that
      it exited and is not started again.
    - On several Sparks, V(waiting) means that this Spark waits for another one. A worker has no port to query. It is
      V(rank_runs) while its rank runs, even while the head loads.
  returned: &status with V(status) in O(gather)
  type: str
  sample: ready
reason: {returned: *status, type: str, sample: null,
  description: "Explanation of the state in one or two sentences. Null if the state needs none."}
container:
  description: The container, running or not. C(uptime_s) is the time since its start, in seconds.
  returned: *status
  type: dict
  sample:
    {name: dgx-spark-speculative, id: 3f4e5d6c7b8a, image: "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12",
     image_id: "sha256:0123abcd", labels: {}, state: running, health: healthy, exit_code: 0, oom_killed: false,
     error: null, started_at: "2026-10-04T09:12:44.123456789Z", finished_at: "0001-01-01T00:00:00Z", restart_count: 0,
     restart_policy: unless-stopped, network_mode: bridge, published_ports: ["127.0.0.1:8000:8000/tcp"],
     uptime_s: 86400}
deployment: {returned: *status, type: str, sample: single_eagle3, description: "Name of the deployment."}
variant: {returned: *status, type: str, sample: qa,
  description: "Variant of its recipe. Empty if it is the recipe itself."}
title: {returned: *status, type: str, sample: gpt-oss-120b with EAGLE-3, description: "Title of its recipe."}
source:
  description: Source of its recipe, such as the URL of the page that it follows.
  returned: *status
  type: str
  sample: https://github.com/NVIDIA/dgx-spark-playbooks/blob/main/nvidia/playbook-speculative-decoding/README.md
deployed_at: {returned: *status, type: str, sample: "2026-10-04T09:12:44Z",
  description: "Time of the deployment, in UTC."}
url: {returned: *status, type: str, sample: "http://127.0.0.1:8000", description: "URL of the server."}
companions: {returned: *status, type: dict, sample: {proxy: running},
  description: "State of the containers of the proxy (C(proxy)) and of Open WebUI (C(Open WebUI)), as Docker reports it.
    Containers that do not exist are left out."}
cleanup_began: {returned: *status, type: str, sample: "2026-10-04T09:12:44Z",
  description: "Time when a cleanup began that has not ended. Null without one."}
chat_url: {returned: *status, type: str, sample: "http://127.0.0.1:3000",
  description: "URL of Open WebUI on the Spark while it runs. Null without one."}
endpoint:
  description:
    - Endpoint of the API proxy while it runs, as the role C(api_proxy) recorded it. Null without one.
    - C(urls) are its addresses, each with its scope. C(keys) are the files of the API keys on the Spark, by name. C(ca)
      is the path of the CA certificate on the machine that ran the role.
  returned: *status
  type: dict
  sample:
    urls: [{scope: lan, url: "https://spark-1.local:8443"}]
    keys: {default: /home/spark/.local/share/dgx-spark-speculative/proxy/keys/default}
    ca: ~/.config/dgx-spark-speculative/spark-1-192.0.2.11-ca.crt
listens_on: {returned: *status, type: str, sample: 127.0.0.1, description: "Address on which the server listens."}
target_model: {returned: *status, type: str, sample: openai/gpt-oss-120b,
  description: "Target model, as its Hub id or the path of its directory."}
served_model: {returned: *status, type: str, sample: gpt-oss-120b, description: "Name of the target model in the API."}
method: {returned: *status, type: str, sample: eagle3, description: "Speculation method, or V(none)."}
draft_length: {returned: *status, type: int, sample: 5,
  description: "Tokens drafted for each pass of the target model."}
context: {returned: *status, type: int, sample: 131072,
  description: "Context length, in tokens of one request with its answer."}
concurrency: {returned: *status, type: int, sample: 1, description: "Number of requests served at once."}
engine: {returned: *status, type: str, sample: tensorrt_llm,
  description: "Engine that serves the model. Null stands for V(tensorrt_llm)."}
speculation: {returned: *status, type: dict, sample: null,
  description: "The engine option for speculation, if the recipe has no method. Null otherwise."}
longest_prompt: {returned: *status, type: int, sample: null,
  description: "Tokens of the longest prompt that the engine accepts, if that is less than RV(context). Null
    otherwise."}
origins: {returned: *status, type: list, elements: str, sample: ["draft length 5, given with -e"],
  description: "Values that differ from the recipe, each with its source."}
version: {returned: *status, type: str, sample: 1.3.0rc12, description: "Release of the server, as it reports it."}
models:
  description: Models of the deployment. C(bytes_on_disk) is the disk space that a model occupies.
  returned: *status
  type: list
  elements: dict
  sample:
    - {id: openai/gpt-oss-120b, role: target, commit: b5c939de8f754692c1647ca79fbf85e8c1e70f8a,
       bytes_on_disk: 65250000000}
image:
  description: Image of the deployment. Null if there is none.
  returned: *status
  type: dict
  sample:
    reference: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    id: sha256:0123abcd
    digests: ["nvcr.io/nvidia/tensorrt-llm/release@sha256:4567ef"]
acceptance_length: {returned: *status, type: float, sample: 2.4,
  description: "Acceptance length, in tokens for each pass of the target model."}
tokens_per_second: {returned: *status, type: float, sample: 44.9,
  description: "Speed of one request, in tokens per second."}
measured: {returned: *status, type: str, sample: now,
  description: "Time at which RV(acceptance_length) and RV(tokens_per_second) were measured. V(now) is this call,
    V(deployed) the deployment. A call that gets less than 32 tokens does not measure. Null if both values are
    unknown."}
findings:
  description: Problems of the server or its answers, recorded at the deployment or found by this call. C(id) is as in
    M(dgx_spark.speculative.completions_probe), or names another problem.
  returned: *status
  type: list
  elements: dict
  sample: [{id: wrong_answer, message: "The answer does not contain 391; it is: 17 times 23 is 401."}]
serving_s: {returned: *status, type: int, sample: 86000,
  description: "Seconds since the server is ready, or on a worker since its rank runs. Null if it is not."}
restarts: {returned: *status, type: int, sample: 0,
  description: "Number of restarts of the server since its container was started."}
memory_total: {returned: *status, type: int, sample: 128521625600,
  description: "Memory in bytes, shared by CPU and GPU."}
memory_available: {returned: *status, type: int, sample: 18259084288, description: "Available memory, in bytes."}
memory_guard:
  description: Memory guard in the container. C(on) says whether it works, and C(why) is the reason if it does not.
    C(lowest) is the least available memory since the server was started, C(floor) the memory that it keeps free, both
    in bytes. C(locked) says whether its own pages are locked in memory. Null if the container reports no memory guard.
  returned: *status
  type: dict
  sample: {"on": true, "floor": 4294967296, "lowest": 15032385536, "locked": true}
oom_daemons: {returned: *status, type: list, elements: str, sample: [systemd-oomd],
  description: "Running daemons that also end programs if memory runs out. These are C(earlyoom) and C(systemd-oomd)."}
disk:
  description: Use of the disks, in bytes. The sizes of images, models, files and logs do not overlap.
  returned: *status
  type: dict
  contains:
    image_bytes: {type: int, sample: 34100000000, description: "Size of the image of the deployment."}
    compressed_images: {type: bool, sample: false,
      description: "Whether the sizes of images are the compressed ones. Unpacked, they take more."}
    previous_image_bytes: {type: int, sample: null,
      description: "Size of the image of RV(previous), if it is another image. Null otherwise."}
    unused_images: {type: list, elements: dict, sample: [{reference: "nvcr.io/x/y:1", bytes: 33200000000}],
      description: "Images that this collection pulled and that neither of the two deployments uses. Null if Docker is
        not usable."}
    caches: {type: list, elements: dict, sample: [{volume: x-cache, image: 0123ab, bytes: 2100000000, in_use: true}],
      description: "Volumes of compiled kernels, with the beginning of the ID of their image, and of downloaded code,
        without an image. Null if Docker is not usable."}
    models_used_bytes: {type: int, sample: 65700000000,
      description: "Size of the models that the current or the previous deployment uses."}
    unused_models: {type: list, elements: dict, sample: [{id: x/z, bytes: 13800000000}],
      description: "Models that this collection downloaded and that neither of the two deployments uses."}
    unused_files: {type: list, elements: dict, sample: [{model: x/y, path: original/, bytes: 65200000000}],
      description: "Unused files of models in use."}
    incomplete_downloads: {type: list, elements: dict, sample: [],
      description: "Incomplete downloads, with C(model), C(path) and C(bytes)."}
    logs_bytes: {type: int, sample: 4100000, description: "Size of the logs of servers and jobs."}
    cache_free_bytes: {type: int, sample: 3211231232000, description: "Free disk space for models."}
    docker_free_bytes: {type: int, sample: 3211231232000, description: "Free disk space for images."}
    reclaimable_bytes: {type: int, sample: 112200000000,
      description: "Disk space that a cleanup with C(unused=true) would free."}
previous:
  description: Deployment that C(serve.yml -e previous=true) would start again. Null if there is none that this release
    can read. C(nodes) are its Sparks if there are several. C(differs) are its values that differ from the current
    deployment.
  returned: *status
  type: dict
  sample:
    {deployment: single_draft_target, method: draft_target, draft_length: 4, deployed_at: "2026-09-30T08:00:00Z",
     nodes: [], engine: tensorrt_llm, speculation: null, differs: [context 65536], variant: ""}
cluster:
  description: Place of this Spark in its cluster, and its view of the other Sparks. Null for a single Spark.
  returned: *status
  type: dict
  contains:
    rank: {type: int, sample: 0, description: "Rank of this Spark. V(0) is the head, which has the API."}
    role: {type: str, sample: head, description: "Role of this Spark, V(head) or V(worker)."}
    nodes: {type: list, elements: str, sample: [spark-1, spark-2],
      description: "Inventory names of all Sparks, in the order of the ranks. Empty if they were not recorded."}
    rails:
      description: Rails of this Spark as they were set up. Their current state is in the last four keys.
      type: list
      elements: dict
      sample:
        - {interface: enp1s0f1np1, address: 192.168.100.10, peer_address: 192.168.100.11, subnet: 192.168.100.0/24,
           mtu: 9000, speed_mbps: 200000, up: true, address_here: true, mtu_now: 9000, speed_mbps_now: 200000}
    peer:
      description:
        - Another Spark of the cluster. C(noticed) is the last observation of it by the container.
        - C(answers) is its reply over the link. V(open) means that its container listens for the head, V(refused) that
          it does not, V(silent) that it does not answer.
      type: dict
      sample:
        {name: spark-2, address: 192.168.100.11, port: 2233, answers: open,
         noticed: {address: 192.168.100.11, reachable: true, since: 1791105164.1}}
    options: {type: str, sample: 9f86d081884c,
      description: "Fingerprint of image and engine options, the same on all Sparks of the deployment."}
    rdma: {type: str, sample: rocep1s0f1 and roceP2p1s0f1,
      description: "RDMA devices that all ranks could use when the running server was started. Null on a worker, while
        no server runs, and if NCCL is configured for TCP, which is a finding."}
    nccl:
      description:
        - Network of this Spark's rank, according to the log of NCCL. C(rdma) says whether it is RDMA. C(devices) are
          its RDMA devices or interfaces.
        - C(missing) are devices that NCCL should use and does not. Without RDMA, C(why) is the reason, and C(fix) says
          what to do. Null while no rank runs, and if the network is unknown.
      type: dict
      sample: {name: IB, rdma: true, devices: [rocep1s0f1, roceP2p1s0f1], missing: [], why: "", fix: ""}
jobs:
  description: Running jobs, which are the pull of an image, the download of models, or a benchmark.
  returned: *status
  type: list
  elements: dict
  sample: [{name: fetch, percent: 42.0, text: openai/gpt-oss-120b 27.4 of 65.2 GB}]
lease: {returned: *status, type: dict, sample: {owner: alice@laptop, activity: two_sparks.yml, for_s: 185},
  description: "Lease of the Spark, with its user (C(owner)), playbook (C(activity)) and age in seconds (C(for_s)). Null
    if no run changes the Spark."}
not_checked:
  description: Sentences on facts that could not be gathered.
  returned: *status
  type: list
  elements: str
  sample: ["Docker cannot be asked: the user spark may not open /var/run/docker.sock."]
lines:
  description: The result as text. With V(log) alone, the path of the log and then its lines.
  returned: with V(status) or V(log) in O(gather)
  type: list
  elements: str
  sample: ["spark-1 serves openai/gpt-oss-120b with EAGLE-3, draft length 5"]
log:
  description: Output of the server since its last start. A missing log is no failure.
  returned: with V(log) in O(gather)
  type: dict
  contains:
    lines: {type: list, elements: str, sample: ["[TRT-LLM] [I] start MpiSession with 1 workers"],
      description: "The lines, oldest first."}
    path: {type: str, sample: /home/spark/.local/share/dgx-spark-speculative/single_eagle3/state/server.log,
      description: "Path of the log of the deployment in O(container). If Docker is not usable or nothing is deployed,
        it is the log that was written last. Null if there is none."}
    truncated: {type: bool, sample: true, description: "Whether the log has more lines than RV(log.lines)."}
    detail: {type: str, sample: null,
      description: "Sentence on a log that is missing, empty, or may belong to another deployment. Null otherwise."}
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._deployment.records import FormatError
from ..module_utils._docker.access import Machine
from ..module_utils._report.status_facts import StatusInspector
from ..module_utils._server.log_location import last_log_lines

GATHERED = ["status", "log"]
# The action waits. Only if the wait fails does the module look for the reason.
PORT = {
    "address": {"type": "str", "required": True},
    "port": {"type": "int", "required": True},
    "timeout": {"type": "float", "default": 60},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": GATHERED, "default": ["status"]},
            "log": {
                "type": "dict",
                "apply_defaults": True,
                "options": {
                    "lines": {"type": "int", "default": 200},
                    "raw": {"type": "bool", "default": False},
                    "all_runs": {"type": "bool", "default": False},
                },
            },
            "container": {"type": "str", "default": "dgx-spark-speculative"},
            "state_directory": {"type": "path", "default": "~/.local/share/dgx-spark-speculative"},
            "cache_directory": {"type": "path", "default": "~/.cache/huggingface/hub"},
            "receipts_directory": {"type": "path"},
            "socket": {"type": "path", "default": "/var/run/docker.sock"},
            "probe": {"type": "bool", "default": True},
            "answer_timeout": {"type": "float", "default": 40},
            "wait_for_port": {"type": "dict", "options": PORT},
        },
        supports_check_mode=True,
    )
    params = module.params
    result: dict[str, t.Any] = {}
    if "status" in params["gather"]:
        try:
            result.update(StatusInspector(params, Machine()).gather().facts())
        except FormatError as error:
            module.fail_json(msg=str(error))
    if "log" in params["gather"]:
        wanted = params["log"]
        if wanted["lines"] < 1:
            module.fail_json(msg=f"log.lines is {wanted['lines']}, but must be 1 or more.")
        where = Path(params["state_directory"]), params["socket"], params["container"]
        result["log"] = last_log_lines(*where, wanted["lines"], wanted["raw"], wanted["all_runs"])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
