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
        See RV(state) and the values after it.
      - V(log) is the end of the server's log. Only Docker and the log are inspected. See RV(log).
    type: list
    elements: str
    choices: [status, log]
    default: [status]
  log:
    description:
      - Selection of the lines that V(log) in O(gather) returns.
    type: dict
    suboptions:
      lines:
        description:
          - Maximum number of lines, at least 1.
        type: int
        default: 200
      raw:
        description:
          - Whether to return the lines unchanged. Otherwise progress bars, overwritten lines, colours and lines without
            information are left out.
        type: bool
        default: false
      all_runs:
        description:
          - Whether to include lines from before the last start of the server.
        type: bool
        default: false
  container:
    description:
      - Name of the serving container.
    type: str
    default: dgx-spark-speculative
  state_directory:
    description:
      - Directory of the deployments. The default is that of the roles, in the home of the user who runs
        the task.
    type: path
    default: ~/.local/share/dgx-spark-speculative
  cache_directory:
    description:
      - The C(hub) directory of the Hugging Face cache.
    type: path
    default: ~/.cache/huggingface/hub
  receipts_directory:
    description:
      - Directory of the receipts of the models. The default is C(models) in O(state_directory).
    type: path
  socket:
    description:
      - The socket of the Docker Engine.
    type: path
    default: /var/run/docker.sock
  probe:
    description:
      - Whether to send the server a probe for a few tokens. Without it, RV(state=ready) means only that C(/health) and
        C(/v1/models) answer. No probe is sent while a benchmark measures the server.
    type: bool
    default: true
  answer_timeout:
    description:
      - Maximum seconds for the answer to the probe.
    type: float
    default: 40
  wait_for_port:
    description:
      - Port on which a worker's container listens for the head; with TensorRT-LLM an SSH server. The task waits until
        it accepts connections, and gathers nothing else. If it does not in time, the task fails with RV(reason).
    type: dict
    suboptions:
      address:
        description:
          - IP address of the port on this host.
        type: str
        required: true
      port:
        description:
          - Its number.
        type: int
        required: true
      timeout:
        description:
          - Maximum seconds to wait.
        type: float
        default: 60
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
  returned: with V(status) in O(gather)
  type: str
  sample: ready
reason:
  description:
    - Explanation of the state in one or two sentences. Null if the state needs none.
  returned: with V(status) in O(gather)
  type: str
  sample: null
container:
  description:
    - The container, running or not. C(uptime_s) is the time since its start, in seconds.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    name: dgx-spark-speculative
    id: 3f4e5d6c7b8a
    image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    image_id: sha256:0123abcd
    labels: {}
    state: running
    health: healthy
    exit_code: 0
    oom_killed: false
    error: null
    started_at: "2026-10-04T09:12:44.123456789Z"
    finished_at: "0001-01-01T00:00:00Z"
    restart_count: 0
    restart_policy: unless-stopped
    network_mode: bridge
    published_ports:
      - 127.0.0.1:8000:8000/tcp
    uptime_s: 86400
deployment:
  description:
    - Name of the deployment.
  returned: with V(status) in O(gather)
  type: str
  sample: single_eagle3
variant:
  description:
    - Variant of its recipe. Empty if it is the recipe itself.
  returned: with V(status) in O(gather)
  type: str
  sample: qa
title:
  description:
    - Title of its recipe.
  returned: with V(status) in O(gather)
  type: str
  sample: gpt-oss-120b with EAGLE-3
source:
  description:
    - Source of its recipe, such as the URL of the page that it follows.
  returned: with V(status) in O(gather)
  type: str
  sample: https://github.com/NVIDIA/dgx-spark-playbooks/blob/main/nvidia/playbook-speculative-decoding/README.md
deployed_at:
  description:
    - Time of the deployment, in UTC.
  returned: with V(status) in O(gather)
  type: str
  sample: "2026-10-04T09:12:44Z"
url:
  description:
    - URL of the server.
  returned: with V(status) in O(gather)
  type: str
  sample: http://127.0.0.1:8000
companions:
  description:
    - State of the containers of the proxy (C(proxy)) and of Open WebUI (C(Open WebUI)), as Docker reports it.
      Containers that do not exist are left out.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    proxy: running
cleanup_began:
  description:
    - Time when a cleanup began that has not ended. Null without one.
  returned: with V(status) in O(gather)
  type: str
  sample: "2026-10-04T09:12:44Z"
chat_url:
  description:
    - URL of Open WebUI on the Spark while it runs. Null without one.
  returned: with V(status) in O(gather)
  type: str
  sample: http://127.0.0.1:3000
endpoint:
  description:
    - Endpoint of the API proxy while it runs, as the role C(api_proxy) recorded it. Null without one.
    - C(urls) are its addresses, each with its scope. C(keys) are the files of the API keys on the Spark, by name. C(ca)
      is the path of the CA certificate on the machine that ran the role.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    urls:
      - scope: lan
        url: https://spark-1.local:8443
    keys:
      default: /home/spark/.local/share/dgx-spark-speculative/proxy/keys/default
    ca: ~/.config/dgx-spark-speculative/spark-1-192.0.2.11-ca.crt
listens_on:
  description:
    - Address on which the server listens.
  returned: with V(status) in O(gather)
  type: str
  sample: 127.0.0.1
target_model:
  description:
    - Target model, as its Hub id or the path of its directory.
  returned: with V(status) in O(gather)
  type: str
  sample: openai/gpt-oss-120b
served_model:
  description:
    - Name of the target model in the API.
  returned: with V(status) in O(gather)
  type: str
  sample: gpt-oss-120b
method:
  description:
    - Speculation method, or V(none).
  returned: with V(status) in O(gather)
  type: str
  sample: eagle3
draft_length:
  description:
    - Tokens drafted for each pass of the target model.
  returned: with V(status) in O(gather)
  type: int
  sample: 5
context:
  description:
    - Context length, in tokens of one request with its answer.
  returned: with V(status) in O(gather)
  type: int
  sample: 131072
concurrency:
  description:
    - Number of requests served at once.
  returned: with V(status) in O(gather)
  type: int
  sample: 1
engine:
  description:
    - Engine that serves the model. Null stands for V(tensorrt_llm).
  returned: with V(status) in O(gather)
  type: str
  sample: tensorrt_llm
speculation:
  description:
    - The engine option for speculation, if the recipe has no method. Null otherwise.
  returned: with V(status) in O(gather)
  type: dict
  sample: null
longest_prompt:
  description:
    - Tokens of the longest prompt that the engine accepts, if that is less than RV(context). Null otherwise.
  returned: with V(status) in O(gather)
  type: int
  sample: null
origins:
  description:
    - Values that differ from the recipe, each with its source.
  returned: with V(status) in O(gather)
  type: list
  elements: str
  sample: ["draft length 5, given with -e"]
version:
  description:
    - Release of the server, as it reports it.
  returned: with V(status) in O(gather)
  type: str
  sample: 1.3.0rc12
models:
  description:
    - Models of the deployment. C(bytes_on_disk) is the disk space that a model occupies.
  returned: with V(status) in O(gather)
  type: list
  elements: dict
  sample:
    - id: openai/gpt-oss-120b
      role: target
      commit: b5c939de8f754692c1647ca79fbf85e8c1e70f8a
      bytes_on_disk: 65250000000
image:
  description:
    - Image of the deployment. Null if there is none.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    reference: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    id: sha256:0123abcd
    digests: ["nvcr.io/nvidia/tensorrt-llm/release@sha256:4567ef"]
acceptance_length:
  description:
    - Acceptance length, in tokens for each pass of the target model.
  returned: with V(status) in O(gather)
  type: float
  sample: 2.4
tokens_per_second:
  description:
    - Speed of one request, in tokens per second.
  returned: with V(status) in O(gather)
  type: float
  sample: 44.9
measured:
  description:
    - Time at which RV(acceptance_length) and RV(tokens_per_second) were measured. V(now) is this call, V(deployed) the
      deployment. A call that gets less than 32 tokens does not measure. Null if both values are unknown.
  returned: with V(status) in O(gather)
  type: str
  sample: now
findings:
  description:
    - Problems of the server or its answers, recorded at the deployment or found by this call.
  returned: with V(status) in O(gather)
  type: list
  elements: dict
  sample: []
serving_s:
  description:
    - Seconds since the server is ready, or on a worker since its rank runs. Null if it is not.
  returned: with V(status) in O(gather)
  type: int
  sample: 86000
restarts:
  description:
    - Number of restarts of the server since its container was started.
  returned: with V(status) in O(gather)
  type: int
  sample: 0
memory_total:
  description:
    - Memory in bytes, shared by CPU and GPU.
  returned: with V(status) in O(gather)
  type: int
  sample: 128521625600
memory_available:
  description:
    - Available memory, in bytes.
  returned: with V(status) in O(gather)
  type: int
  sample: 18259084288
memory_guard:
  description:
    - Memory guard in the container, as the supervisor reports it. C(on) says whether it works, and C(why) is the reason
      if it does not.
    - C(lowest) is the least available memory since the server was started, C(floor) the memory that it keeps free, both
      in bytes. C(locked) says whether its own pages are locked in memory.
    - Null if the container reports no memory guard.
  returned: with V(status) in O(gather)
  type: dict
  sample: {"on": true, "floor": 4294967296, "lowest": 15032385536, "locked": true}
oom_daemons:
  description:
    - Running daemons that also end programs if memory runs out. These are C(earlyoom) and C(systemd-oomd).
  returned: with V(status) in O(gather)
  type: list
  elements: str
  sample: [systemd-oomd]
disk:
  description:
    - Use of the disks, in bytes. The sizes of images, models, files and logs do not overlap.
  returned: with V(status) in O(gather)
  type: dict
  contains:
    image_bytes:
      description: Size of the image of the deployment.
      type: int
    compressed_images:
      description: Whether the sizes of images are the compressed ones. Unpacked, they take more.
      type: bool
    previous_image_bytes:
      description: Size of the image of RV(previous), if it is another image. Null otherwise.
      type: int
    unused_images:
      description:
        - Images that this collection pulled and that neither of the two deployments uses, with C(reference) and
          C(bytes). Null if Docker is not usable.
      type: list
      elements: dict
    caches:
      description:
        - Volumes of compiled kernels and of downloaded code, with C(volume), C(bytes), C(in_use) and C(image).
        - C(image) is the beginning of the ID of the image whose kernels they are, and null for downloaded code.
        - Null if Docker is not usable.
      type: list
      elements: dict
    models_used_bytes:
      description: Size of the models that the current or the previous deployment uses.
      type: int
    unused_models:
      description:
        - Models that this collection downloaded and that neither of the two deployments uses, with C(id) and C(bytes).
      type: list
      elements: dict
    unused_files:
      description:
        - Unused files of models in use, such as C(original/), with C(model), C(path) and C(bytes).
      type: list
      elements: dict
    incomplete_downloads:
      description: Incomplete downloads, with C(model), C(path) and C(bytes).
      type: list
      elements: dict
    logs_bytes:
      description: Size of the logs of servers and jobs.
      type: int
    cache_free_bytes:
      description: Free disk space for models.
      type: int
    docker_free_bytes:
      description: Free disk space for images.
      type: int
    reclaimable_bytes:
      description: Disk space that a cleanup with C(unused=true) would free.
      type: int
previous:
  description:
    - Deployment that C(serve.yml -e previous=true) would start again. Null if there is none that this release can read.
    - C(nodes) are its Sparks if there are several. C(differs) are its values that differ from the current deployment.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    deployment: single_draft_target
    method: draft_target
    draft_length: 4
    deployed_at: "2026-09-30T08:00:00Z"
    nodes: []
    engine: tensorrt_llm
    speculation: null
    differs: [context 65536]
    variant: ""
cluster:
  description:
    - Place of this Spark in its cluster, and its view of the other Sparks. Null for a single Spark.
  returned: with V(status) in O(gather)
  type: dict
  contains:
    rank:
      description: Rank of this Spark. V(0) is the head, which has the API, and all others are workers.
      type: int
    role:
      description: Role of this Spark, V(head) or V(worker).
      type: str
    nodes:
      description: Inventory names of all Sparks, in the order of the ranks. Empty if they were not recorded.
      type: list
      elements: str
    rails:
      description:
        - Rails of this Spark as they were set up, with C(interface), C(address), C(peer_address), C(subnet), C(mtu) and
          C(speed_mbps). Their current state is in C(up), C(address_here), C(mtu_now) and C(speed_mbps_now).
      type: list
      elements: dict
    peer:
      description:
        - Another Spark of the cluster, with C(name), C(address) and C(port).
        - C(answers) is its reply over the link. V(open) means that its container listens for the head,
          V(refused) that it does not, V(silent) that it does not answer.
        - C(noticed) is the last observation of it by the container, with C(reachable) and C(since).
      type: dict
    options:
      description: Fingerprint of image and engine options, the same on all Sparks of the deployment.
      type: str
    rdma:
      description:
        - RDMA devices that all ranks could use when the running server was started. C(nccl) says whether NCCL uses
          them.
        - Null on a worker, while no server runs, and if NCCL is configured for TCP, which is a finding.
      type: str
    nccl:
      description:
        - Network that NCCL uses for the rank of this Spark, according to its log. C(name) is NCCL's name for it, and
          C(rdma) says whether it is RDMA. C(devices) are its RDMA devices or interfaces.
        - C(missing) are devices that NCCL should use and does not. Without RDMA, C(why) is the reason as far as NCCL
          logs it, and C(fix) says what to do.
        - Null while no rank runs, and if the network is unknown, as with C(NCCL_DEBUG) in
          C(speculative_serve_environment).
      type: dict
  sample: null
jobs:
  description:
    - Running jobs, which are the pull of an image, the download of models, or a benchmark.
  returned: with V(status) in O(gather)
  type: list
  elements: dict
  sample:
    - name: fetch
      percent: 42.0
      text: openai/gpt-oss-120b 27.4 of 65.2 GB
lease:
  description:
    - Lease of the Spark, with its user (C(owner)), playbook (C(activity)) and age in seconds (C(for_s)). Null without
      a lease. See M(dgx_spark.speculative.lease).
  returned: with V(status) in O(gather)
  type: dict
  sample:
    owner: alice@laptop
    activity: two_sparks.yml
    for_s: 185
not_checked:
  description:
    - Sentences on facts that could not be gathered.
  returned: with V(status) in O(gather)
  type: list
  elements: str
  sample: ["Docker cannot be asked: the user spark may not open /var/run/docker.sock."]
lines:
  description:
    - The result as text. With V(log) alone, the path of the log and then its lines.
  returned: with V(status) or V(log) in O(gather)
  type: list
  elements: str
  sample: ["spark-1 serves openai/gpt-oss-120b with EAGLE-3, draft length 5"]
log:
  description:
    - Output of the server since its last start. A missing log is no failure.
  returned: with V(log) in O(gather)
  type: dict
  contains:
    lines:
      description: The lines, oldest first.
      type: list
      elements: str
      sample: ["[TRT-LLM] [I] start MpiSession with 1 workers"]
    path:
      description:
        - Path of the log of the deployment in O(container). If Docker is not usable or nothing is deployed, it is the
          log that was written last. Null if there is none.
      type: str
      sample: /home/spark/.local/share/dgx-spark-speculative/single_eagle3/state/server.log
    truncated:
      description: Whether the log has more lines than RV(log.lines).
      type: bool
      sample: true
    detail:
      description:
        - Sentence on a log that is missing, empty, or may belong to another deployment. Null otherwise.
      type: str
      sample: null
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
