#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_access_info
short_description: Tell in one call what Docker is to the connecting process
version_added: 0.1.0
description:
  - Tells whether the process that Ansible starts on the host can use Docker, and if not, why.
  - Tells what runs there, and what is known of one container, one image and one TCP port.
  - Needs neither Docker's command nor a Python package on the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  container:
    description:
      - The name of a container to describe, running or not.
    type: str
  image:
    description:
      - The reference or the ID of an image to describe.
    type: str
  port:
    description:
      - A TCP port to look at.
    type: int
  address:
    description:
      - The address on which O(port) is to be used.
    type: str
    default: 127.0.0.1
  published_ports:
    description:
      - Ports that a container is to publish on the host, each as C(ADDRESS:PORT:CONTAINER_PORT), as Docker spells them.
    type: list
    elements: str
    default: []
  holders:
    description:
      - Whether to find out what memory and which ports the running containers hold, and who computes on the GPU.
      - This asks C(nvidia-smi), which takes a moment.
    type: bool
    default: false
  mounts:
    description:
      - Whether to return what the collection's containers have mounted.
    type: bool
    default: false
  compare_path:
    description:
      - A path, which need not exist yet, whose file system is compared with that of Docker's images.
    type: path
  socket:
    description:
      - The socket of the Engine.
    type: path
    default: /var/run/docker.sock
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - plugin: dgx_spark.speculative.sg
    plugin_type: become
"""

EXAMPLES = r"""
---
- name: Look at Docker
  dgx_spark.speculative.docker_access_info:
    container: dgx-spark-speculative
    image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    port: 8000
    holders: true
    compare_path: /home/spark/.cache/huggingface/hub
  register: docker

- name: Say who holds memory
  ansible.builtin.debug:
    msg: "{{ docker.memory.holders }}"

- name: Refuse another Docker
  ansible.builtin.fail:
    msg: "{{ docker.detail }}"
  when: docker.state == "unsupported"
"""

RETURN = r"""
state:
  description:
    - V(usable) when the Engine answers this process.
    - V(denied) when the socket is there and this process may not open it.
    - V(not_running) when Docker is installed and does not answer.
    - V(not_installed) when there is no Docker.
    - V(unsupported) when RV(engine) is something else than a Docker Engine that root runs.
  returned: success
  type: str
  sample: usable
detail:
  description: The same in one sentence. Empty when RV(state=usable).
  returned: success
  type: str
  sample: The user spark may not open /var/run/docker.sock.
engine:
  description: V(docker), V(podman), V(rootless), V(snap) or V(unknown).
  returned: success
  type: str
  sample: docker
architecture:
  description: The machine's processor as images name it.
  returned: success
  type: str
  sample: arm64
server_version:
  description: The version of the Engine.
  returned: success
  type: str
  sample: 28.3.3
data_root:
  description: The directory where the Engine keeps its data.
  returned: success
  type: str
  sample: /var/lib/docker
image_store:
  description:
    - How and where the Engine stores images. Null where that cannot be known.
    - C(kind) is V(classic) or V(containerd). The latter keeps images in a directory of its own, outside RV(data_root).
    - C(free_bytes) is what is free at C(path), null where that cannot be known.
    - C(unpack_factor) is the room that a pull takes, as a multiple of the image's packed size.
    - C(way_out) names what moves images to a larger disk.
  returned: success
  type: dict
  sample:
    kind: classic
    path: /var/lib/docker
    free_bytes: 1500000000000
    unpack_factor: 3.0
    way_out: Docker's data-root
data_root_filesystem:
  description: Where the file system of RV(data_root) is mounted.
  returned: success
  type: str
  sample: /
data_root_device:
  description: The device of that file system, as the kernel numbers it.
  returned: success
  type: str
  sample: "259:2"
same_filesystem:
  description:
    - Whether images and what lies at O(compare_path) take room from each other.
    - Null without O(compare_path), and where it cannot be known.
  returned: success
  type: bool
gpu:
  description: Whether the Engine knows the option that gives GPUs to a container.
  returned: success
  type: bool
gpu_by:
  description: What says so, V(hook), V(runtime) or V(cdi). Null without RV(gpu).
  returned: success
  type: str
  sample: hook
user:
  description: The user of this process.
  returned: success
  type: str
  sample: spark
group_exists:
  description: Whether there is a group C(docker).
  returned: success
  type: bool
user_in_group:
  description: Whether the user is in the group C(docker) according to the group database, so at the next login.
  returned: success
  type: bool
process_in_group:
  description: Whether this process is in the group C(docker).
  returned: success
  type: bool
python_requests:
  description: Whether this process's interpreter can import C(requests), which the modules of community.docker need.
  returned: success
  type: bool
docker_host:
  description: The Engine that the docker command of this user is directed to, null when it is the usual one.
  returned: success
  type: str
containers:
  description:
    - The running containers.
    - C(memory_bytes) is what a container's processes have on the GPU, and the rest of its memory that is no cache.
    - C(ports_listening) are the TCP ports on which one in the host's network listens.
    - C(description) says what it holds, and how to stop it, in a sentence without a full stop.
    - These three are there with O(holders=true), and the first two are null where they cannot be known.
  returned: success
  type: list
  elements: dict
  sample:
    - name: dgx-spark-speculative
      id: 3f4e5d6c7b8a
      image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
      state: running
      status: Up 3 hours (healthy)
      up: 3 hours
      pid: 4711
      ports:
        - address: 127.0.0.1
          port: 8080
          container_port: 80
          protocol: tcp
      network_mode: host
      started_at: "2026-10-04T09:12:44.123456789Z"
      labels: {}
      memory_bytes: 71000000000
      ports_listening: [8000]
      description: >-
        vllm (nvcr.io/nvidia/vllm:26.01-py3, up 3 days, not this collection's) holds 71 GB and port 8000;
        stop it with: docker stop vllm
mounted:
  description:
    - The paths of the host that the collection's containers have mounted, whether they run or not. Null without
      O(mounts=true).
  returned: success
  type: list
  elements: str
  sample:
    - /home/spark/.local/share/dgx-spark-speculative/single_eagle3/generations/5a0c3f1e9b27
gpu_processes:
  description: The processes that compute on the GPU. Null without O(holders=true), and where nobody can tell.
  returned: success
  type: list
  elements: dict
  sample:
    - pid: 4711
      name: python3
      user: spark
      bytes: 12000000000
      container: null
      description: "process python3 (4711) of user spark holds 12 GB; stop it with: kill 4711"
memory:
  description: The machine's memory, which CPU and GPU share. Null without O(holders=true).
  returned: success
  type: dict
  contains:
    total:
      description: All of it, in bytes.
      type: int
    available:
      description: What a program could get now, as the kernel estimates it.
      type: int
    slot:
      description: What O(container) holds, V(0) if it does not run. Null where that cannot be known.
      type: int
    holders:
      description: Who else holds memory, the biggest first, each in a sentence without a full stop.
      type: list
      elements: str
  sample:
    total: 128521625600
    available: 40259084288
    slot: 0
    holders:
      - >-
        vllm (nvcr.io/nvidia/vllm:26.01-py3, up 3 days, not this collection's) holds 71 GB and port 8000;
        stop it with: docker stop vllm
slot:
  description:
    - The container called O(container). Null when there is none. If what was put aside for it runs again, as after a
      power cut, it is that one, by its own name.
  returned: success
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
aside:
  description: Whether a container was put aside for RV(slot) until that has been seen to answer.
  returned: success
  type: bool
image:
  description: The O(image) on this host. Null when it is not there.
  returned: success
  type: dict
  sample:
    id: sha256:0123abcd
    repo_tags:
      - nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
    repo_digests:
      - nvcr.io/nvidia/tensorrt-llm/release@sha256:4567ef
    size: 35000000000
    architecture: arm64
    labels: {}
    env:
      - PATH=/usr/bin
port:
  description: Who listens on O(port). Null without O(port).
  returned: success
  type: dict
  contains:
    in_use:
      description: Whether a socket could not listen there now.
      type: bool
    container:
      description: The container that listens or has published the port.
      type: str
    process:
      description: The name and number of the process that listens. Null where only root may know.
      type: str
    user:
      description: The user of the process that listens.
      type: str
    holder:
      description: Who listens, in words for a message. Null when nobody does.
      type: str
    description:
      description:
        - What the container that listens is, what it holds and how to stop it, in a sentence without a full stop.
        - The same of all the suspects where it is not known who listens. Null where no container is concerned.
      type: str
    suspects:
      description: The containers in the host's network, one of which may listen, when it cannot be known who does.
      type: list
      elements: str
    slot:
      description: Whether it is O(container) that listens, as far as can be told.
      type: bool
    address_here:
      description: Whether this host has the address.
      type: bool
  sample:
    in_use: true
    address: 127.0.0.1
    port: 8000
    container: trtllm
    process: python3 (4711)
    user: root
    holder: container 'trtllm' (process python3 (4711) of user root)
    description: >-
      trtllm (release:1, up 3 days, not this collection's) holds port 8000; stop it with: docker stop trtllm
    suspects: []
    slot: false
    address_here: true
published_ports:
  description: The same of each TCP port in O(published_ports), with the port of the container and in Docker's spelling.
  returned: success
  type: list
  elements: dict
  sample:
    - in_use: false
      address: 127.0.0.1
      port: 8000
      container: null
      process: null
      user: null
      holder: null
      description: null
      suspects: []
      slot: false
      address_here: true
      container_port: 8000
      text: 127.0.0.1:8000:8000/tcp
taken:
  description: Those of RV(published_ports) and RV(port) that somebody else than O(container) has.
  returned: success
  type: list
  elements: dict
  sample: []
addresses:
  description: The addresses of this host on which something can listen, without those that only hold on one link.
  returned: success
  type: list
  elements: str
  sample:
    - 127.0.0.1
    - 172.17.0.1
    - 192.168.1.20
"""

import ipaddress

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import EngineError, Machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.look import ARGUMENTS, DockerAccessInfo


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
    )
    try:
        ipaddress.ip_address(module.params["address"])
    except ValueError:
        module.fail_json(msg=f"Looking at a port needs an IP address, which {module.params['address']!r} is not.")
    try:
        look = DockerAccessInfo(module.params, Machine())
    except ValueError as e:
        module.fail_json(msg=str(e))
    try:
        module.exit_json(**look.act())
    except EngineError as e:
        module.fail_json(msg=str(e))


if __name__ == "__main__":
    main()
