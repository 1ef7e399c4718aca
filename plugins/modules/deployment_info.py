#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_info
short_description: Tell what a Spark serves, whether it works, what it takes, and what its server wrote
version_added: 0.1.0
description:
  - Tells in one call what is deployed, in which state the server is, how fast it is, and where memory and disk went, or
    what the server wrote. What is not in O(gather) is not looked at, and not returned.
  - What cannot be found out is null, and RV(not_checked) or RV(log.detail) says why. Without Docker, without a
    deployment or with half of one there still is an answer.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
attributes:
  check_mode:
    details:
      - The server is asked in check mode as well; an answer costs it a second or two.
options:
  gather:
    description:
      - What to look at.
      - V(status) is everything but the log. A running container proves nothing, so the server is asked for a few
        tokens, unless O(probe=false); besides Docker, the records, the models and the memory are looked at. See
        RV(state) and the other values.
      - V(log) is the last lines that the server wrote. Only Docker and the log are looked at. See RV(log).
    type: list
    elements: str
    choices: [status, log]
    default: [status]
  log:
    description:
      - Which lines V(log) in O(gather) returns.
    type: dict
    suboptions:
      lines:
        description:
          - How many lines at most.
        type: int
        default: 200
      raw:
        description:
          - Whether to return the lines as they are in the file. Otherwise progress bars, overwritten lines, colours and
            lines that say nothing are left out.
        type: bool
        default: false
      all_runs:
        description:
          - Whether to go back beyond the last start of the server.
        type: bool
        default: false
  container:
    description:
      - The container in which it serves.
    type: str
    default: dgx-spark-speculative
  state_directory:
    description:
      - The directory that holds the deployments. The default is the roles', in the home of the user who runs the task.
    type: path
    default: ~/.local/share/dgx-spark-speculative
  cache_directory:
    description:
      - The C(hub) directory of the Hugging Face cache.
    type: path
    default: ~/.cache/huggingface/hub
  receipts_directory:
    description:
      - The directory of the receipts of the models. By default C(models) below O(state_directory).
    type: path
  socket:
    description:
      - The socket of the Docker Engine.
    type: path
    default: /var/run/docker.sock
  probe:
    description:
      - Whether to ask the server for a few tokens. Without that RV(state=ready) says only that C(/health) and
        C(/v1/models) answer. While a benchmark measures it, it is never asked.
    type: bool
    default: true
  answer_timeout:
    description:
      - How many seconds the answer may take at most.
    type: float
    default: 40
  wait_for_ssh:
    description:
      - Where the head of several Sparks logs in to the container. Then the task waits until it can, and looks no
        further. Where it cannot in time, the task fails with RV(reason).
    type: dict
    suboptions:
      address:
        description:
          - The address on this host.
        type: str
        required: true
      port:
        description:
          - The port of the SSH server.
        type: int
        required: true
      timeout:
        description:
          - After how many seconds it is too late.
        type: float
        default: 60
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.completions_probe
"""

EXAMPLES = r"""
---
- name: See what serves
  dgx_spark.speculative.deployment_info:
  register: status

- name: Show it
  ansible.builtin.debug:
    msg: "{{ status.lines }}"

- name: Read the end of the server's log
  dgx_spark.speculative.deployment_info:
    gather: [log]
    log:
      lines: 50
  register: result
"""

RETURN = r"""
state:
  description:
    - What the deployment does. Null if it cannot be found out.
    - V(absent) means that there is no container, V(stopped) that it does not run, V(loading) that the server was
      started and does not listen yet.
    - V(ready) means that it generates, V(ready_without_speculation) that it does and accepts no draft, V(busy) that no
      token came in time, as when it serves someone else.
    - V(trial) means that a benchmark has other engine options served for now, whether their server answers, loads or
      has ended. RV(reason) says which, and RV(jobs) how far the benchmark is.
    - V(unhealthy) means that it listens and cannot generate, V(dead) that it exited, V(failed) that it did and is not
      started again.
    - Of two Sparks that serve as one, V(waiting) means that this one waits for the other one. The worker has no port
      to be asked at; there V(rank_runs) means that its rank runs, also while the head loads.
  returned: with V(status) in O(gather)
  type: str
  sample: ready
reason:
  description:
    - One or two sentences on the state. Null if it speaks for itself.
  returned: with V(status) in O(gather)
  type: str
  sample: null
container:
  description:
    - The container, running or not, and C(uptime_s).
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
    - The name of the deployment.
  returned: with V(status) in O(gather)
  type: str
  sample: single_eagle3
title:
  description:
    - The title of its recipe.
  returned: with V(status) in O(gather)
  type: str
  sample: gpt-oss-120b with EAGLE-3
source:
  description:
    - Where the recipe comes from.
  returned: with V(status) in O(gather)
  type: str
  sample: https://build.nvidia.com/spark/speculative-decoding
deployed_at:
  description:
    - When it was deployed.
  returned: with V(status) in O(gather)
  type: str
  sample: "2026-10-04T09:12:44Z"
url:
  description:
    - Where it serves.
  returned: with V(status) in O(gather)
  type: str
  sample: http://127.0.0.1:8000
companions:
  description:
    - Docker's word for the state of the containers of the proxy (C(proxy)) and of Open WebUI (C(Open WebUI)).
      Those that do not exist are left out.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    proxy: running
endpoint:
  description:
    - What the proxy offers to others while it runs, as the role C(api_proxy) has written it down, or null. C(urls) are
      addresses with their scope, C(keys) the file of each key on the Spark, C(ca) the authority's certificate on the
      machine that has opened it.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    urls:
      - scope: lan
        url: https://spark-1.local:8443
    keys:
      default: /home/spark/.local/share/dgx-spark-speculative/proxy/keys/default
    ca: ~/.config/dgx-spark-speculative/spark-1-ca.crt
listens_on:
  description:
    - The address on which it listens.
  returned: with V(status) in O(gather)
  type: str
  sample: 127.0.0.1
target_model:
  description:
    - The Hub id of the target model.
  returned: with V(status) in O(gather)
  type: str
  sample: openai/gpt-oss-120b
served_model:
  description:
    - Its name in the API.
  returned: with V(status) in O(gather)
  type: str
  sample: gpt-oss-120b
method:
  description:
    - How drafts are made.
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
    - Tokens of one conversation, prompt and answer together.
  returned: with V(status) in O(gather)
  type: int
  sample: 131072
concurrency:
  description:
    - Conversations that are answered at once.
  returned: with V(status) in O(gather)
  type: int
  sample: 1
decoding_type:
  description:
    - The C(decoding_type) of a C(speculative_config) that the engine options bring. Null if a method makes it.
  returned: with V(status) in O(gather)
  type: str
  sample: null
longest_prompt:
  description:
    - Tokens of the longest prompt that the engine takes, where that is less than RV(context). Null otherwise.
  returned: with V(status) in O(gather)
  type: int
  sample: null
origins:
  description:
    - What is not as the recipe says, with where it comes from.
  returned: with V(status) in O(gather)
  type: list
  elements: str
  sample: ["draft length 5, given with -e"]
version:
  description:
    - The release that answers.
  returned: with V(status) in O(gather)
  type: str
  sample: 1.3.0rc12
models:
  description:
    - The models of the deployment.
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
    - The image. Null if there is none.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    reference: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    id: sha256:0123abcd
    digests: ["nvcr.io/nvidia/tensorrt-llm/release@sha256:4567ef"]
acceptance_length:
  description:
    - Tokens for each pass of the target model.
  returned: with V(status) in O(gather)
  type: float
  sample: 2.4
tokens_per_second:
  description:
    - The speed.
  returned: with V(status) in O(gather)
  type: float
  sample: 44.9
measured:
  description:
    - When these two were measured, V(now) by this call or V(deployed) when it was deployed. A call that gets less than
      32 tokens does not measure. Null if both are unknown.
  returned: with V(status) in O(gather)
  type: str
  sample: now
findings:
  description:
    - What is wrong with the server or its answers, as noted when it was deployed and as seen now.
  returned: with V(status) in O(gather)
  type: list
  elements: dict
  sample: []
restarts:
  description:
    - How often the server was started again since its container was started.
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
    - Memory in bytes that a program could get now.
  returned: with V(status) in O(gather)
  type: int
  sample: 18259084288
memory_guard:
  description:
    - The memory guard in the container, as it says of itself. C(on), and why not; the C(lowest) level of available
      memory since the server was started and the C(floor) that it keeps free, in bytes; whether its own pages are
      C(locked). Null if the container says nothing of one.
  returned: with V(status) in O(gather)
  type: dict
  sample: {"on": true, "floor": 4294967296, "lowest": 15032385536, "locked": true}
oom_daemons:
  description:
    - Which of C(earlyoom) and C(systemd-oomd) run.
  returned: with V(status) in O(gather)
  type: list
  elements: str
  sample: [systemd-oomd]
disk:
  description:
    - Where the room went, in bytes. What is in one of these is not in another one.
  returned: with V(status) in O(gather)
  type: dict
  contains:
    image_bytes:
      description: The image that serves.
      type: int
    previous_image_bytes:
      description: The image of RV(previous), if that is another one. Null otherwise.
      type: int
    unused_images:
      description:
        - Images that this collection has pulled and that neither of the two uses, with C(reference) and C(bytes). Null
          if Docker cannot be asked.
      type: list
      elements: dict
    models_used_bytes:
      description: What the models hold that the deployment and the previous one use.
      type: int
    unused_models:
      description:
        - The models that were fetched by this collection and that neither of the two uses, with C(id) and C(bytes).
      type: list
      elements: dict
    unused_files:
      description:
        - Files of models in use that are never served, such as C(original/), with C(model), C(path) and C(bytes).
      type: list
      elements: dict
    incomplete_downloads:
      description: Incomplete downloads, with C(model), C(path) and C(bytes).
      type: list
      elements: dict
    logs_bytes:
      description: The logs of servers and jobs.
      type: int
    cache_free_bytes:
      description: What is free where models are stored.
      type: int
    docker_free_bytes:
      description: What is free where images are stored.
      type: int
    reclaimable_bytes:
      description: What cleaning up with C(unused=true) would give back.
      type: int
previous:
  description:
    - What C(serve.yml -e previous=true) would bring back. Null if there is nothing that this release
      reads. C(nodes) are its Sparks if there are several, and C(differs) says what is not as it is now.
  returned: with V(status) in O(gather)
  type: dict
  sample:
    deployment: single_draft_target
    method: draft_target
    draft_length: 4
    deployed_at: "2026-09-30T08:00:00Z"
    nodes: []
    decoding_type: null
    differs: [context 65536]
cluster:
  description:
    - Which half of two Sparks that serve as one this is, and what it sees of the other one. Null for one Spark alone.
  returned: with V(status) in O(gather)
  type: dict
  contains:
    rank:
      description: V(0) is the head, which has the API, and V(1) the worker, and so on.
      type: int
    role:
      description: The same in a word, V(head) or V(worker).
      type: str
    head:
      description: The inventory's name of the head. Null if this deployment was never seen to serve.
      type: str
    worker:
      description: The inventory's name of the first worker. Null if this deployment was never seen to serve.
      type: str
    nodes:
      description: Inventory names of all Sparks, in the order of the ranks. Empty if they were not recorded.
      type: list
      elements: str
    rails:
      description:
        - The ways through the cable as they were set up (C(interface), C(address), C(peer_address), C(subnet), C(mtu),
          C(speed_mbps)) and as they are now (C(up), C(address_here), C(mtu_now), C(speed_mbps_now)).
      type: list
      elements: dict
    peer:
      description:
        - The other Spark (C(name), C(address), C(port)), and whether it C(answers) through the cable, V(open) if its
          SSH server listens, V(refused) if it answers without one, V(silent) if it does not.
        - C(noticed) is what the container wrote down of it, with C(reachable) and C(since).
      type: dict
    options:
      description: A fingerprint of image and engine options, the same on both.
      type: str
    rdma:
      description:
        - The RDMA devices that all ranks could use before the server that runs was started. Whether NCCL uses them says
          C(nccl). Null on the worker, while nothing runs, and if NCCL is told to use TCP, which is a finding.
      type: str
    nccl:
      description:
        - The network that the NCCL of this Spark's rank uses, by its own log. C(name) is NCCL's word for it, C(rdma)
          whether that is RDMA, C(devices) are its RDMA devices or interfaces, and C(missing) devices that it should use
          and does not. Without RDMA, C(why) is the reason as far as NCCL tells it, and C(fix) what to do.
        - Null while no rank runs, and if it is not known, as with C(NCCL_DEBUG) in C(speculative_serve_environment).
      type: dict
  sample: null
jobs:
  description:
    - The pull of an image, the download of models or the benchmark, if one is under way.
  returned: with V(status) in O(gather)
  type: list
  elements: dict
  sample:
    - name: fetch
      percent: 42.0
      text: openai/gpt-oss-120b 27.4 of 65.2 GB
lease:
  description:
    - The lease of the Spark with its user, playbook and age in seconds. Null without a lease. See
      M(dgx_spark.speculative.lease).
  returned: with V(status) in O(gather)
  type: dict
  sample:
    who: alice@laptop
    doing: two_sparks.yml
    for_s: 185
not_checked:
  description:
    - Sentences on what could not be looked at.
  returned: with V(status) in O(gather)
  type: list
  elements: str
  sample: ["Docker cannot be asked: the user spark may not open /var/run/docker.sock."]
lines:
  description:
    - The same for a person, with V(log) the end of the log below where it is.
  returned: with V(status) or V(log) in O(gather)
  type: list
  elements: str
  sample: ["spark-1 serves openai/gpt-oss-120b with EAGLE-3, draft length 5"]
log:
  description:
    - What the server wrote since it was last started. A log that is not there is no failure.
  returned: with V(log) in O(gather)
  type: dict
  contains:
    lines:
      description: The lines, the oldest first.
      type: list
      elements: str
      sample: ["[TRT-LLM] [I] start MpiSession with 1 workers"]
    path:
      description:
        - The log of the deployment in O(container). Where Docker cannot be asked for it, or nothing is deployed, the
          one that was written to last. Null if none was found.
      type: str
      sample: /home/spark/.local/share/dgx-spark-speculative/single_eagle3/state/server.log
    truncated:
      description: Whether there is more than RV(log.lines).
      type: bool
      sample: true
    detail:
      description:
        - A sentence on a log that is not there, is empty, or may not be the one that is meant. Null otherwise.
      type: str
      sample: null
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import FormatError
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import Machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.status_facts import StatusInspector
from ansible_collections.dgx_spark.speculative.plugins.module_utils._server.log_location import last_log_lines

GATHERED = ["status", "log"]
# The action waits. Only if the wait fails does the module look for the reason.
LETS_IN = {
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
            "wait_for_ssh": {"type": "dict", "options": LETS_IN},
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
            module.fail_json(msg=f"lines is {wanted['lines']}, but at least 1 line has to be asked for.")
        where = Path(params["state_directory"]), params["socket"], params["container"]
        result["log"] = last_log_lines(*where, wanted["lines"], wanted["raw"], wanted["all_runs"])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
