#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spark_info
short_description: Look at a DGX Spark, its login user, Docker, cable and what it brings into a pair
version_added: 0.1.0
description:
  - Every look of its own costs a connection and a start of Python, so that one takes in as many subsets as O(gather)
    names. What is not asked for is not looked at, and not returned.
  - It changes nothing and needs no root. A subset that cannot be gathered is empty. If it is the only one, the task
    fails and says why.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  gather:
    description:
      - What to look at.
      - V(login) is who logs in. It reads the user's entry and nothing else, and takes the place of
        M(ansible.builtin.setup) for the roles of this collection. See RV(ansible_facts).
      - V(machine) is whether the machine is a DGX Spark, or a box of another maker with the same chip, by its GPU. The
        network card says nothing, for DGX OS takes it off the PCI bus while no cable is in, and the release file
        differs between makers. It reads C(/sys/bus/pci/devices), C(/proc/meminfo), and what belongs to the card's
        hot-plug, and asks C(nvidia-smi), which has 10 seconds, since a driver that hangs answers no question. See
        RV(machine).
      - V(docker) is whether this process can use Docker, and if not, why, what runs there, and what is known of one
        container, one image and some ports, if O(docker) names them. It asks the Engine, and needs neither Docker's
        command nor a Python package. See RV(docker).
      - V(fabric) is the QSFP ports of the ConnectX network card. They are found in C(/sys), by vendor and PCI address
        and not by name, since other makers' boxes have other names. A port shows as two interfaces, its twins, because
        the card hangs on two PCIe links. Twins have the same PCI bus, slot and function, and differ in the PCI domain.
        The number of a port is the PCI function. Asked are C(ip), NetworkManager and C(systemctl), a few calls of each.
        Netplan files that the login user cannot read are listed. See RV(fabric).
      - V(pair) is what has to be compared with another Spark before both serve as one, and needs O(pair). It asks the
        Engine for images and, if there are O(pair.ports), for all containers, and C(nvidia-smi). See RV(pair).
      - V(records) is what deployments leave that were seen to serve, and from which they can be deployed again. Only
        files are looked at. What is in the slot is O(docker.container), with V(docker) in O(gather), and the task fails
        where Docker does not tell, but for check mode. See RV(records).
    type: list
    elements: str
    choices: [login, machine, docker, fabric, pair, records]
    default: [machine]
  state_directory:
    description:
      - With V(fabric), V(pair) and V(records) in O(gather), where this collection keeps its deployments on the Spark,
        and what was measured of the cable.
    type: path
    default: ~/.local/share/dgx-spark-speculative
  deployment:
    description:
      - The name of a deployment whose record is wanted with V(records) in O(gather).
    type: str
  docker:
    description:
      - What V(docker) in O(gather) looks at closely. Without it, no container, image or port is.
    type: dict
    suboptions:
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
          - The address on which O(docker.port) is to be used.
        type: str
        default: 127.0.0.1
      published_ports:
        description:
          - Ports that a container is to publish on the host, each as C(ADDRESS:PORT:CONTAINER_PORT), as Docker spells
            them.
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
  pair:
    description:
      - What V(pair) in O(gather) looks at.
    type: dict
    suboptions:
      container:
        description:
          - The name of the serving container.
        type: str
        required: true
      image:
        description:
          - The image from which that of the pair is made.
        type: str
        required: true
      ports:
        description:
          - Ports to look at.
        type: list
        elements: dict
        default: []
        suboptions:
          address:
            description:
              - The address, which this host need not have yet.
            type: str
            required: true
          port:
            description:
              - The port.
            type: int
            required: true
          input:
            description:
              - The variable that chooses another one, handed back for messages.
            type: str
            required: true
          use:
            description:
              - Whether the serving container listens there, or what takes in copies.
            type: str
            choices: [container, copies]
            required: true
      key:
        description:
          - The private key of which RV(pair.key) tells.
        type: path
      sent:
        description:
          - The time where Ansible runs, in seconds since 1970. Without it nothing is said about the clock.
        type: float
      proof:
        description:
          - What of the cable to prove, as M(dgx_spark.speculative.fabric_check) does.
        type: dict
        suboptions:
          rails:
            description:
              - The interfaces, as RV(dgx_spark.speculative.deployment_plan#module:rails). Nothing is proven where there
                are none.
            type: list
            elements: dict
            required: true
          peer:
            description:
              - What the other Spark is called in messages.
            type: str
            default: the other Spark
          host:
            description:
              - What this Spark is called in messages.
            type: str
            default: ""
          port:
            description:
              - The TCP port of the other Spark that is asked. V(0) leaves that out.
            type: int
            default: 2233
          timeout:
            description:
              - Seconds for all of it.
            type: int
            default: 15
      socket:
        description:
          - The socket of the Engine.
        type: path
        default: /var/run/docker.sock
  since:
    description:
      - What was returned as RV(machine) before something happened that may have given memory back.
    type: dict
seealso:
  - module: dgx_spark.speculative.deployment_plan
  - plugin: dgx_spark.speculative.sg
    plugin_type: become
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Look at the machine
  dgx_spark.speculative.spark_info:
  register: result

- name: Stop on anything but a Spark
  ansible.builtin.assert:
    that: result.machine.is_spark

- name: Look at who logs in, at machine and Docker at once
  dgx_spark.speculative.spark_info:
    gather: [login, machine, docker]
  register: result

- name: Make Docker usable
  ansible.builtin.include_role:
    name: dgx_spark.speculative.docker_permissions
  vars:
    docker_permissions_found: "{{ result.docker }}"

- name: Look at Docker closely
  dgx_spark.speculative.spark_info:
    gather: [docker]
    docker:
      container: dgx-spark-speculative
      image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
      port: 8000
      holders: true
      compare_path: /home/spark/.cache/huggingface/hub
  register: result

- name: Say who holds memory
  ansible.builtin.debug:
    msg: "{{ result.docker.memory.holders }}"

- name: Look at the ports
  dgx_spark.speculative.spark_info:
    gather: [fabric]
  register: result

- name: Show the interfaces with a link
  ansible.builtin.debug:
    msg: "{{ interfaces | selectattr('carrier') | map(attribute='name') }}"
  vars:
    interfaces: "{{ result.fabric.ports | map(attribute='interfaces') | flatten }}"

- name: See what serves, and what can be gone back to
  dgx_spark.speculative.spark_info:
    gather: [docker, records]
    state_directory: /home/me/.local/share/dgx-spark-speculative
    docker:
      container: dgx-spark-speculative
  register: found

- name: Show it
  ansible.builtin.debug:
    msg: "{{ found.records.previous.deployment }}"
  when: found.records.previous is not none

- name: Look at both Sparks of a pair
  dgx_spark.speculative.spark_info:
    gather: [pair]
    state_directory: /home/me/.local/share/dgx-spark-speculative
    pair:
      container: dgx-spark-speculative
      image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
      sent: "{{ now(utc=true).timestamp() }}"
  register: result
"""

RETURN = r"""
ansible_facts:
  description:
    - With V(login) in O(gather), who logs in. These are the facts of M(ansible.builtin.setup) that the roles of this
      collection need, under the same names. What may be another thing a minute later is returned elsewhere and is not
      a fact, so that no fact cache keeps it.
  returned: if asked for
  type: dict
  contains:
    user_id:
      description: The login user's name.
      type: str
      sample: me
    user_uid:
      description: The user's number.
      type: int
      sample: 1000
    user_gid:
      description: The number of the user's first group.
      type: int
      sample: 1000
    user_dir:
      description: The user's home directory.
      type: str
      sample: /home/me
    python:
      description: The interpreter that runs modules.
      type: dict
      sample: {executable: /usr/bin/python3}
given_back:
  description: How much memory there was by O(since), and is now, in a sentence.
  returned: with O(since)
  type: str
  sample: "Memory available: 41.2 GB before, 118 GB now; free: 12.3 GB before, 104 GB now."
machine:
  description:
    - With V(machine) in O(gather), what the machine is.
  returned: if asked for
  type: dict
  contains:
    is_spark:
      description:
        - Whether the machine is a DGX Spark. Where C(nvidia-smi) names no GPU, one on the PCI bus or
          a loaded driver counts.
      type: bool
      sample: true
    objections:
      description:
        - Why it is none, or why a Spark cannot serve, since its GPU's driver does not answer. Empty for a sound Spark.
      type: list
      elements: str
      sample: ["its GPU is 'NVIDIA H100', not a GB10"]
    remedy:
      description:
        - What to do about a Spark whose GPU's driver does not answer. Empty for any other machine.
      type: str
      sample: ""
    gpus:
      description:
        - The GPUs that C(nvidia-smi) finds.
      type: list
      elements: dict
      sample:
        - name: NVIDIA GB10
          driver: 580.95.05
    connectx:
      description:
        - Number of ConnectX-7 functions on the PCI bus. None is usual for a Spark without a cable.
      type: int
      sample: 4
    hotplug:
      description:
        - What DGX OS does with the ConnectX-7 when it sees no cable.
      type: dict
      contains:
        armed:
          description: Whether the card leaves the PCI bus then, by the marker file C(/etc/nvidia/cx7-hotplug-enabled).
          type: bool
          sample: true
        powered:
          description: Whether the driver of that says that a cable is in. Null where there is no such driver.
          type: bool
          sample: false
        aside:
          description: From where to where that marker file goes back, if this collection has put it aside. Else empty.
          type: list
          elements: str
          sample: []
    memory_total:
      description:
        - Memory in bytes, shared by CPU and GPU.
      type: int
      sample: 128521625600
    memory_available:
      description:
        - Memory in bytes that a program could get now, as the kernel estimates it.
      type: int
      sample: 120259084288
    memory_free:
      description:
        - Memory in bytes that holds nothing, not even the content of files that were read.
      type: int
      sample: 4294967296
docker:
  description:
    - With V(docker) in O(gather), how Docker can be used, what runs there, and what is known of what O(docker) names.
  returned: if asked for
  type: dict
  contains:
    state:
      description:
        - V(usable) when the Engine answers this process.
        - V(denied) when the socket is there and this process may not open it.
        - V(not_running) when Docker is installed and does not answer.
        - V(not_installed) when there is no Docker.
        - V(unsupported) when RV(docker.engine) is something else than a Docker Engine that root runs.
      type: str
      sample: usable
    detail:
      description: The same in one sentence. Empty when RV(docker.state=usable).
      type: str
      sample: The user spark may not open /var/run/docker.sock.
    engine:
      description: V(docker), V(podman), V(rootless), V(snap) or V(unknown).
      type: str
      sample: docker
    architecture:
      description: The machine's processor as images name it.
      type: str
      sample: arm64
    server_version:
      description: The version of the Engine.
      type: str
      sample: 28.3.3
    data_root:
      description: The directory where the Engine keeps its data.
      type: str
      sample: /var/lib/docker
    image_store:
      description:
        - How and where the Engine stores images. Null where that cannot be known.
        - C(kind) is V(classic) or V(containerd). The latter keeps images in a directory of its own, outside
          RV(docker.data_root).
        - C(free_bytes) is what is free at C(path), null where that cannot be known.
        - C(unpack_factor) is the room that a pull takes, as a multiple of the image's packed size.
        - C(way_out) names what moves images to a larger disk.
      type: dict
      sample:
        kind: classic
        path: /var/lib/docker
        free_bytes: 1500000000000
        unpack_factor: 3.0
        way_out: Docker's data-root
    data_root_filesystem:
      description: Where the file system of RV(docker.data_root) is mounted.
      type: str
      sample: /
    data_root_device:
      description: The device of that file system, as the kernel numbers it.
      type: str
      sample: "259:2"
    same_filesystem:
      description:
        - Whether images and what lies at O(docker.compare_path) take room from each other.
        - Null without O(docker.compare_path), and where it cannot be known.
      type: bool
    gpu:
      description: Whether the Engine knows the option that gives GPUs to a container.
      type: bool
    gpu_by:
      description: What says so, V(hook), V(runtime) or V(cdi). Null without RV(docker.gpu).
      type: str
      sample: hook
    user:
      description: The user of this process.
      type: str
      sample: spark
    group_exists:
      description: Whether there is a group C(docker).
      type: bool
    user_in_group:
      description: Whether the user is in the group C(docker) according to the group database, so at the next login.
      type: bool
    process_in_group:
      description: Whether this process is in the group C(docker).
      type: bool
    python_requests:
      description:
        - Whether this process's interpreter can import C(requests), which the modules of community.docker need.
      type: bool
    docker_host:
      description: The Engine that the docker command of this user is directed to, null when it is the usual one.
      type: str
    containers:
      description:
        - The running containers.
        - C(memory_bytes) is what a container's processes have on the GPU, and the rest of its memory that is no cache.
        - C(ports_listening) are the TCP ports on which one in the host's network listens.
        - C(description) says what it holds, and how to stop it, in a sentence without a full stop.
        - These three are there with O(docker.holders=true), and the first two are null where they cannot be known.
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
          O(docker.mounts=true).
      type: list
      elements: str
      sample:
        - /home/spark/.local/share/dgx-spark-speculative/single_eagle3/generations/5a0c3f1e9b27
    gpu_processes:
      description:
        - The processes that compute on the GPU. Null without O(docker.holders=true), and where nobody can tell.
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
      description: The machine's memory, which CPU and GPU share. Null without O(docker.holders=true).
      type: dict
      contains:
        total:
          description: All of it, in bytes.
          type: int
        available:
          description: What a program could get now, as the kernel estimates it.
          type: int
        slot:
          description: What O(docker.container) holds, V(0) if it does not run. Null where that cannot be known.
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
        - The container called O(docker.container). Null when there is none. If what was put aside for it runs again, as
          after a power cut, it is that one, by its own name.
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
      description: Whether a container was put aside for RV(docker.slot) until that has been seen to answer.
      type: bool
    image:
      description: The O(docker.image) on this host. Null when it is not there.
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
      description: Who listens on O(docker.port). Null without O(docker.port).
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
          description: Whether it is O(docker.container) that listens, as far as can be told.
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
      description:
        - The same of each TCP port in O(docker.published_ports), with the port of the container and in Docker's
          spelling.
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
      description:
        - Those of RV(docker.published_ports) and RV(docker.port) that somebody else than O(docker.container) has. Who
          that is tells the login user, where C(become) would hide the user's own processes.
      type: list
      elements: dict
      sample: []
    addresses:
      description: The addresses of this host on which something can listen, without those that only hold on one link.
      type: list
      elements: str
      sample:
        - 127.0.0.1
        - 172.17.0.1
        - 192.168.1.20
fabric:
  description:
    - With V(fabric) in O(gather), the QSFP ports with their interfaces, and what must not be touched.
  returned: if asked for
  type: dict
  contains:
    ports:
      description:
        - The ports with their interfaces. In each interface, C(carrier) is null while it is switched off,
          C(speed_mbps) is the RDMA port's rate, C(pcie_width) and C(pcie_gts) are the lanes of its PCIe link and their
          speed in GT/s, C(manager) is V(NetworkManager), V(networkd) or V(none), C(profile) and
          C(file) name its configuration, C(netplan_files) are those that set it up as far as they can be read, C(own)
          is whether the file of M(dgx_spark.speculative.fabric_network) does, and C(gids) are the RoCE v2 entries with
          an IPv4 address.
      type: list
      elements: dict
      sample:
        - number: 1
          place: "01:00.1"
          interfaces:
            - name: enp1s0f1np1
              pci: "0000:01:00.1"
              port: 1
              rdma: rocep1s0f1
              pcie_width: 4
              pcie_gts: 32.0
              mac: 4c:bb:47:00:00:01
              up: true
              carrier: true
              operstate: up
              speed_mbps: 200000
              mtu: 9000
              max_mtu: 9978
              master: null
              addresses:
                - address: 192.168.100.10
                  prefix: 24
                  dynamic: false
              manager: NetworkManager
              profile: netplan-enp1s0f1np1
              file: /run/NetworkManager/system-connections/netplan-enp1s0f1np1.nmconnection
              netplan_files: []
              own: true
              rdma_state: ACTIVE
              rdma_physical: LinkUp
              gids:
                - index: 3
                  address: 192.168.100.10
    connectx:
      description: How many PCI functions of a ConnectX-7 are on the bus. DGX OS takes them off while no cable is in.
      type: int
      sample: 4
    hotplug:
      description:
        - Whether DGX OS takes the network card off the bus while it sees no cable (C(armed)), and whether its driver
          says that a cable is in (C(powered), null where there is no such driver). C(aside) is from where to where the
          marker of that goes back, if this collection has put it aside; else it is empty.
      type: dict
      sample:
        armed: true
        powered: true
        aside: []
    starter:
      description:
        - What this collection has installed to start a container when the network card comes late, C(files) with their
          SHA-256, and whether it is C(enabled).
      type: dict
      sample:
        files: {}
        enabled: false
    measured:
      description:
        - What the role spark_network has measured since the host was started, with C(interface), and on the head
          C(gbps), C(by), V(RDMA) or V(TCP), and C(finding), a sentence, or null if that is what a cable carries. Empty
          if nothing.
      type: list
      elements: dict
      sample:
        - interface: enp1s0f1np1
          gbps: 97.3
          by: RDMA
          finding: null
    in_use:
      description: Whether a TCP connection is open at an address of the ports, as while a pair serves.
      type: bool
      sample: false
    management:
      description: The interfaces by which the host is reached, each with the reason.
      type: list
      elements: dict
      sample:
        - interface: enP7s7
          why: the default route
    networks:
      description: All IPv4 networks the host has an address in or a route to, with the interface.
      type: list
      elements: dict
      sample:
        - network: 172.17.0.0/16
          interface: docker0
    renderer:
      description: What netplan hands the ports to on this host, V(NetworkManager) or V(networkd).
      type: str
      sample: NetworkManager
    netplan:
      description: Whether netplan is installed.
      type: bool
      sample: true
    netplan_unreadable:
      description: Netplan files that only root can read.
      type: list
      elements: str
      sample: [/etc/netplan/50-cloud-init.yaml]
    own_file:
      description: Whether the file of M(dgx_spark.speculative.fabric_network) is there.
      type: bool
      sample: false
    trial:
      description:
        - How the last change of the network since the host started stands, with C(id), C(action), C(state) and
          C(error). Null if there was none.
      type: dict
      sample: null
    nccl_conf:
      description: What C(/etc/nccl.conf) says. Null if there is none.
      type: str
      sample: null
pair:
  description:
    - With V(pair) in O(gather), what this Spark brings into a pair.
  returned: if asked for
  type: dict
  contains:
    hostname:
      description: What the host calls itself.
      type: str
      sample: spark-a1b2
    mac_addresses:
      description: Those of its network cards, without what Docker and other programs have made.
      type: list
      elements: str
      sample: ["3c:6d:66:00:00:01"]
    architecture:
      description: What kind of machine it is.
      type: str
      sample: aarch64
    memory_total:
      description: Memory in bytes.
      type: int
      sample: 128521625600
    drivers:
      description: The driver of each GPU.
      type: list
      elements: str
      sample: ["580.95.05"]
    clock_offset:
      description:
        - How many seconds the host's clock is ahead of O(pair.sent), with the time that asking took. Null without
          O(pair.sent).
      type: float
      sample: 0.4
    sshd:
      description: The program that lets others in. Null where there is none.
      type: str
      sample: /usr/sbin/sshd
    docker:
      description:
        - The Docker Engine, and the place C(images) where it keeps images.
        - The C(store) is V(classic) or V(containerd), and C(way_out) is what moves images to a larger disk.
      type: dict
      sample:
        state: usable
        detail: ""
        version: 28.3.3
        store: classic
        images: /var/lib/docker
        way_out: Docker's data-root
        filesystem: /
        free: 1500000000000
    images:
      description:
        - The O(pair.image) as C(base) and the one that is made from it as C(pair), each null where it is not here.
        - The C(fingerprint) is the same for the same image in every Docker, which its C(id) is not.
        - The C(base) of the latter is the fingerprint of the image from which it was made.
      type: dict
      sample:
        base:
          id: sha256:0123
          fingerprint: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
          bytes: 35000000000
          base: null
        pair: null
    pair_image:
      description: What the image that is made from O(pair.image) is called.
      type: str
      sample: dgx-spark-speculative/release:1.3.0rc12
    slot:
      description: The O(pair.container). Null when there is none.
      type: dict
      sample:
        name: dgx-spark-speculative
        state: running
        labels: {}
    ports:
      description: Who listens on O(pair.ports), and whether that is this deployment itself.
      type: list
      elements: dict
      sample:
        - address: 192.168.100.11
          port: 2233
          input: spark_network_ssh_port
          in_use: true
          ours: false
          holder: process sshd (4711) of user root
          description: null
    state:
      description: The place of the deployments.
      type: dict
      sample:
        path: /home/me/.local/share/dgx-spark-speculative
        filesystem: /
        free: 1500000000000
    state_directory:
      description: As it was given.
      type: str
      sample: /home/me/.local/share/dgx-spark-speculative
    has_directory:
      description: Whether the directory of what both share is there, and closed to others.
      type: bool
    client_key:
      description: The public key with which this host connects to the other one. Null where there is none.
      type: str
      sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0
    key_file:
      description: O(pair.key).
      type: str
    key:
      description:
        - The public half of O(pair.key), if both files of the key pair are whole and belong together. Null where there
          is none or it has to be made anew.
      type: str
      sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0
    key_is_open:
      description: Whether the private key has another mode than V(0600), with which ssh refuses it.
      type: bool
    authorized:
      description: Whose key this host's container accepts. Null where there is none.
      type: dict
      sample:
        from: [192.168.100.10, 192.168.101.10]
        key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0
    trusted:
      description: What tells the files that name the keys of others from other ones.
      type: str
      sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    proof:
      description:
        - What was proven of O(pair.proof), with C(rails), C(table) and C(findings) of
          M(dgx_spark.speculative.fabric_check), and C(error), which is empty where nothing is wrong. Null where there
          was nothing to prove.
      type: dict
    spooled_bytes:
      description: How much of an image has come from the other host and is not in Docker yet.
      type: int
      sample: 0
records:
  description:
    - With V(records) in O(gather), the records that matter at one moment. A record that is damaged, or lacks what
      bringing its deployment back needs, is none.
  returned: if asked for
  type: dict
  contains:
    own:
      description: The last record of O(deployment). Null if there is none.
      type: dict
    slot_directory:
      description: The directory of the deployment in the slot. Null without one.
      type: str
    slot:
      description:
        - The last record of the deployment that is in the slot, whether it is of the same configuration or not. Null if
          there is none.
      type: dict
    present:
      description:
        - The record of just what is in the slot. Null if that was never seen to serve.
      type: dict
    previous:
      description: The record of what served before the present deployment. Null if there is none.
      type: dict
    previous_damaged:
      description: Whether there is a file for RV(records.previous) and nothing usable in it.
      type: bool
    choice:
      description:
        - What a benchmark has chosen for O(deployment), or without that for what is in the slot. Null if it has chosen
          nothing.
      type: dict
    verdict:
      description:
        - What a benchmark has found of O(deployment), whether or not it has chosen for it, as C(date), C(sentence) and
          the C(configuration) that was measured. Empty if there was none.
      type: dict
    previous_lacks:
      description: The models of RV(records.previous) that are not where they were.
      type: list
      elements: str
    said:
      description:
        - What the image has said of the engine options of O(deployment), by the hash of image and options, which is
          RV(dgx_spark.speculative.deployment_plan#module:checked).
      type: dict
    files:
      description:
        - What there is of O(deployment), by the path in its directory. It has the directories right in that, and all
          of the generation that the container in the slot was made with. Of a directory the mode is told, of a file its
          mode and SHA-256.
      type: dict
      sample: {".": "0700", generations: "0755"}
    ranks:
      description: What the ranks of O(deployment) said of themselves when it started last. Empty for one Spark alone.
      type: list
      elements: dict
    network:
      description:
        - The network that the NCCL of this Spark's rank of O(deployment) uses, as C(nccl) in
          RV(dgx_spark.speculative.deployment_info#module:pair). Null for one Spark alone, while no rank runs, and if
          it is not known.
      type: dict
    images:
      description:
        - The images that this collection has pulled or served, by name, C(known), and those of them that nothing uses,
          C(unused). C(receipts) are the files that keep the names, for M(dgx_spark.speculative.deployment_files).
      type: dict
      sample:
        known: ["nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"]
        unused: []
        receipts: []
    trial:
      description:
        - What a benchmark has served in the slot now, in place of the deployment's own engine options. Null if there is
          no benchmark, or none that lives.
      type: dict
      contains:
        id:
          description: What the benchmark calls it.
          type: str
        title:
          description: The same for a person.
          type: str
        until:
          description: The Unix time at which it ends unless the benchmark goes on renewing it.
          type: float
"""

import os
import pwd
import sys
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.access import EngineError, Machine
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.look import ARGUMENTS, DockerAccessInfo
from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.arguments import PROOF
from ansible_collections.dgx_spark.speculative.plugins.module_utils._spark import machine

PORT = {
    "address": {"type": "str", "required": True},
    "port": {"type": "int", "required": True},
    "input": {"type": "str", "required": True},
    "use": {"type": "str", "choices": ["container", "copies"], "required": True},
}
PAIR = {
    "container": {"type": "str", "required": True},
    "image": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT},
    "key": {"type": "path", "no_log": False},
    "sent": {"type": "float"},
    "proof": {"type": "dict", "options": PROOF},
    "socket": {"type": "path", "default": "/var/run/docker.sock"},
}


def login() -> dict[str, t.Any]:
    """Who logs in, as ansible.builtin.setup words it."""
    user = pwd.getpwuid(os.getuid())
    return {
        "user_id": user.pw_name,
        "user_uid": user.pw_uid,
        "user_gid": user.pw_gid,
        "user_dir": user.pw_dir,
        "python": {"executable": sys.executable},
    }


def look(
    subset: str, params: t.Mapping[str, t.Any], docker: DockerAccessInfo, found: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """Gather a subset, after those that were found.

    What only one needs is imported for it: nothing keeps what Python compiles for the next call.
    """
    state = Path(params["state_directory"])
    if subset == "machine":
        return machine.look()
    if subset == "docker":
        return docker.act()
    if subset == "fabric":
        from ansible_collections.dgx_spark.speculative.plugins.module_utils._fabric.ports import Look

        return Look(state_directory=state).look()
    if subset == "records":
        from ansible_collections.dgx_spark.speculative.plugins.module_utils._deployment.records import remembered

        slot = found.get("docker", {}).get("slot") or {"labels": {}}
        return remembered(state, params["deployment"], slot["labels"])
    from ansible_collections.dgx_spark.speculative.plugins.module_utils._report.pair_look import PairLook

    return PairLook(state, params["pair"], Machine()).look()


def unseen(docker: t.Mapping[str, t.Any]) -> str:
    """Why it cannot be told what is in the slot; empty if it can, or there is no Docker that has something in it."""
    if docker.get("state") != "denied":
        return ""
    from ansible_collections.dgx_spark.speculative.plugins.module_utils._problems.catalogue import cause_of

    fix = cause_of(docker["detail"], ("docker_denied",)).fix
    return f"Whether there is a server cannot be seen: {docker['detail']} {fix}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather": {
                "type": "list",
                "elements": "str",
                "choices": ["login", "machine", "docker", "fabric", "pair", "records"],
                "default": ["machine"],
            },
            "state_directory": {"type": "path", "default": "~/.local/share/dgx-spark-speculative"},
            "deployment": {"type": "str"},
            "docker": {"type": "dict", "options": ARGUMENTS, "apply_defaults": True},
            "pair": {"type": "dict", "options": PAIR},
            # For the action, which tells what has changed.
            "since": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    asked = set(module.params["gather"])
    if "pair" in asked and module.params["pair"] is None:
        module.fail_json(msg="To gather 'pair', the option pair has to say what to look at.")
    try:
        docker = DockerAccessInfo(module.params["docker"], Machine())
    except ValueError as error:
        module.fail_json(msg=str(error))
    found: dict[str, t.Any] = {"ansible_facts": login()} if "login" in asked else {}
    for subset in sorted(asked - {"login"}):
        try:
            found[subset] = look(subset, module.params, docker, found)
        except (EngineError, machine.LookError) as error:
            if len(asked) == 1 or (subset == "docker" and "records" in asked):
                module.fail_json(msg=str(error))
            found[subset] = {}
        # A dry run has not let the user in yet.
        if subset == "docker" and "records" in asked and not module.check_mode and (why := unseen(found["docker"])):
            module.fail_json(msg=why)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
