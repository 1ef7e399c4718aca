#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_plan
short_description: Decide what each Spark of a deployment runs, and how
version_added: 0.1.0
description:
  - Plans the containers of a deployment for all its Sparks at once, says how a deployment is made to run that was
    planned or recorded, whether what served before can come back, and what is recorded of one that was seen to answer.
  - A Spark that serves alone is a cluster of one. It gets nothing of what a fabric needs.
  - Before that, it says how the Sparks are joined, whether they go together, what lets one into the next, what the
    models need of the memory, whether image and models fit on the disks, and whether there is a place for a container.
  - A task asks one of O(fabric), O(cluster), O(needs), O(room), O(copies), O(trust), O(place), O(share), O(nodes),
    O(run), O(back) and O(record).
  - This is an action plugin. It runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
  - dgx_spark.speculative._of_all
options:
  fabric:
    description:
      - How the Sparks are joined, two by a cable or any number by a switch. A Spark alone is joined with nothing.
      - Chooses the port with the cable at all ends, takes the addresses that are there, or plans new ones.
      - Refuses what cannot work or would endanger something, with one sentence for each reason, before anything is
        changed. That is a missing cable, one twin interface without a link, addresses that clash or overlap a network
        in use, an interface by which the host is reached, and one that somebody else has set up.
      - Each subnet has one interface of each Spark, its twin another subnet. Sparks in a ring, of which no subnet has
        all, are refused.
    type: dict
    suboptions:
      hosts:
        description:
          - What M(dgx_spark.speculative.spark_info) returned as C(fabric), by host name, the head first.
        type: dict
        required: true
      mode:
        description:
          - V(auto) uses addresses that work, whoever set them, also if O(fabric.plan) or O(fabric.mtu) say otherwise,
            which is a finding. It configures a port whose addresses do not join the Sparks.
          - V(adopt) configures nothing.
          - V(configure) also changes addresses that work, if this collection has set them up, to O(fabric.plan) and
            O(fabric.mtu). It never changes what others have set up.
        type: str
        choices: [auto, adopt, configure]
        default: auto
      plan:
        description:
          - Addresses of one's own. Either a list with an entry for each twin interface, which has C(addresses), the
            head's first, and C(subnet); or a mapping of each host's name to a list of addresses with prefix length.
          - Without it, 192.168.100.0/24 and 192.168.101.0/24 are used, with .10 for the head, .11 for the next and so
            on, or the next pair of networks that is free.
        type: raw
      interfaces:
        description:
          - Names of the interfaces to use, a list for all hosts, or a mapping of each host's name to a list. Without
            it, the port with the cable is found.
        type: raw
      mtu:
        description:
          - MTU of the interfaces that are configured.
        type: int
        default: 9000
      renderer:
        description:
          - What netplan hands the interfaces to. V(auto) is what the host already uses.
        type: str
        choices: [auto, NetworkManager, networkd]
        default: auto
      speed:
        description:
          - The speed of a link in Mb/s below which it is a finding.
        type: int
        default: 200000
      minimum_speed:
        description:
          - The speed of a link in Mb/s below which it is refused.
        type: int
        default: 0
      bandwidth_test:
        description:
          - Whether what the cable carries is to be measured, V(true), V(false), or V(auto), which is once after each
            start of one of them, while nobody uses the cable.
        type: raw
        default: auto
      start_with_card:
        description:
          - Whether a Spark is to start its container when the network card comes after Docker, V(true), V(false), or
            V(auto), which is where the host is configured anyway.
        type: raw
        default: auto
      keep_card:
        description:
          - Whether the network card is to stay on without a cable, V(true), V(false), or V(auto), which is as it is.
        type: raw
        default: auto
      ssh_port:
        description:
          - Where the containers of the others are to be reached, for RV(ports).
        type: int
        default: 0
      copy_port:
        description:
          - Where the others are to take in copies, for RV(ports).
        type: int
        default: 0
  cluster:
    description:
      - Whether Sparks can serve as one. Compared are machine, memory, driver, clock and Docker.
    type: dict
    suboptions:
      looks:
        description:
          - What M(dgx_spark.speculative.spark_info) returned as C(pair), by host name, the head first.
        type: dict
        required: true
      clock_skew:
        description:
          - By how many seconds the clocks may differ.
        type: float
        default: 60
      tolerate:
        description:
          - Differences that are only reported, of C(clock), C(driver) and C(memory).
        type: list
        elements: str
        default: []
  needs:
    description:
      - What models need of the memory of a Spark.
      - Adds up the weights of target and draft model, the KV cache of the wanted context, and 10 GB of workspace, and
        compares the sum with the memory there is, before anything is downloaded.
      - The KV cache is counted for O(needs.parallel) conversations. Each takes O(needs.context) tokens and three times
        O(needs.draft_length), as TensorRT-LLM makes a sequence longer for its drafts, rounded up to whole blocks, and a
        block more. Another block is for the dummy request that fills up the batches of CUDA graphs.
      - A value in it takes two bytes unless C(kv_cache_config.dtype) in O(needs.options) says less. With C(auto) it
        takes one where the checkpoint asks for FP8, as TensorRT-LLM follows it; the head of O(needs.method=eagle3) has
        its target's type.
      - The share of C(kv_cache_config.free_gpu_memory_fraction) stays a cap, for the KV cache, on what the weights
        leave.
      - On several Sparks the target's weights and the KV cache are split; draft, workspace and reserve are counted on
        each.
      - Chunked prefill is switched on where the context is longer than C(max_num_tokens) and O(needs.options) do not
        say, since the server refuses longer prompts without it. It works together with all methods of drafting, and
        keeps the workspace at the size of C(max_num_tokens) tokens.
      - It is left off for models with multi-head latent attention, for which TensorRT-LLM does not support it on a
        GB10.
      - Layers with a sliding window count like the others, because TensorRT-LLM gives them as much unless
        C(kv_cache_config.max_attention_window) says otherwise.
    type: dict
    suboptions:
      target:
        description:
          - The target model.
        type: dict
        required: true
        suboptions:
          name:
            description:
              - What it is called.
            type: str
          facts:
            description:
              - What its files say, in the form in which M(dgx_spark.speculative.huggingface_snapshot) returns it.
              - Used are C(weights_bytes), C(layers), C(attention_heads), C(kv_heads), C(head_dim), C(max_context),
                C(kv_cache_dtype) and C(model_type).
            type: dict
      draft:
        description:
          - The draft model, in the same form. Empty without one.
        type: dict
        suboptions:
          name:
            description:
              - What it is called.
            type: str
          facts:
            description:
              - What its files say. The head of O(needs.method=eagle3) has one layer unless they say otherwise.
            type: dict
      method:
        description:
          - How drafts are made, such as V(eagle3), V(draft_target) or V(none).
          - Empty if C(speculative_config) in O(needs.options) says it.
        type: str
        default: none
      draft_length:
        description:
          - Tokens drafted for each pass of the target model.
        type: int
        default: 0
      context:
        description:
          - Tokens of one conversation, prompt and answer together.
          - C(max_seq_len) in O(needs.options) wins over it, and may be more than the model was made for.
        type: raw
        default: 32768
      parallel:
        description:
          - Conversations at once. C(max_batch_size) in O(needs.options) wins over it.
        type: raw
        default: 1
      kv_cache:
        description:
          - V(planned) makes the KV cache as large as O(needs.context) and O(needs.parallel) need it.
          - V(fraction) leaves its size to C(kv_cache_config.free_gpu_memory_fraction), and the context to the model.
            Needed is room for 2048 tokens then.
        type: str
        default: planned
        choices: [planned, fraction]
      reserve_gib:
        description:
          - GiB of the memory that are kept for the desktop and the system.
        type: raw
        default: 12
      memory:
        description:
          - The Spark's memory, in bytes, with the keys C(total), C(available), C(slot) (what the running deployment
            gives back) and C(holders) (who else holds memory, a list of sentences), as
            M(dgx_spark.speculative.docker_access_info) returns it.
          - C(cuda) is what a container of the image was told, where one was asked. Its C(free) is what CUDA calls free,
            and C(unused) and C(available) are C(MemFree) and C(MemAvailable) at the same moment. On a GB10 CUDA counts
            what files hold as used, so a C(free) that is too small only leads to a warning with the remedy.
          - Without C(available) or C(slot), everything but O(needs.reserve_gib) counts as free.
        type: dict
      sparks:
        description:
          - How many Sparks serve together. It has to divide the attention heads of O(needs.target).
        type: int
        default: 1
      options:
        description:
          - The explicit engine options in TensorRT-LLM's own spelling.
        type: dict
  room:
    description:
      - Whether image and models fit on the disks of the host of the task, which takes them from the Spark before it,
        and on the head's. Without O(room.looks), whether what the host downloads itself does.
    type: dict
    suboptions:
      looks:
        description:
          - As O(cluster.looks).
        type: dict
      models:
        description:
          - What M(dgx_spark.speculative.huggingface_snapshot) returned on this host, with C(cache).
        type: dict
        required: true
      image_bytes:
        description:
          - What an image will take on the disk of a host that downloads.
        type: int
        default: 0
      packed_bytes:
        description:
          - What the registry has of the image, for one that is not pulled yet.
        type: int
        default: 0
      reserve_bytes:
        description:
          - What is to stay free.
        type: int
        default: 0
  copies:
    description:
      - Which Sparks have models copied to them by the one before, and whether those in directories of the host of the
        task are as large as on the head.
    type: dict
    suboptions:
      views:
        description:
          - What M(dgx_spark.speculative.huggingface_snapshot) returned on each host, in the order of the ranks.
        type: dict
        required: true
  trust:
    description:
      - What lets the head into the containers of the others, and each Spark hand on what it has to the next.
    type: dict
    suboptions:
      hosts:
        description:
          - By host name, the head first, the C(addresses) on the link, the public half of its C(key), and as which
            C(user) and with which C(python) it takes in copies.
        type: dict
        required: true
      directory:
        description:
          - Where a Spark keeps what is shared.
        type: str
        required: true
      ssh_port:
        description:
          - Where the containers let the head in.
        type: int
        required: true
      copy_port:
        description:
          - Where copies are taken in.
        type: int
        required: true
      key:
        description:
          - The file with the private half of the key of this host.
        type: str
        required: true
      streams:
        description:
          - In how many connections is copied.
        type: int
        required: true
      patience:
        description:
          - After how many seconds without a byte a copy ends.
        type: int
        required: true
  place:
    description:
      - What was found where a container is to be.
    type: dict
    suboptions:
      name:
        description:
          - The name of the container.
        type: str
        required: true
      image:
        description:
          - Its image. Empty if it comes from elsewhere.
        type: str
        required: true
      look:
        description:
          - What M(dgx_spark.speculative.docker_access_info) returned.
        type: dict
        required: true
      uses:
        description:
          - The ports that it would listen on, as RV(dgx_spark.speculative.docker_access_info#module:port). One that has
            another name than C(port) in O(place.inputs) brings it as C(input).
        type: list
        elements: dict
        default: []
      taken:
        description:
          - Those of them that somebody else has.
        type: list
        elements: dict
        default: []
      seen:
        description:
          - The same as the login user sees them, who may see more of the user's own processes.
        type: list
        elements: dict
        default: []
      registry:
        description:
          - What M(dgx_spark.speculative.registry_image_info) returned of an image that is not here yet.
        type: dict
        default: {}
      unpack_factor:
        description:
          - The room that a pull takes, as a multiple of the packed size. V(0) is what Docker's image store takes.
        type: float
        default: 0.0
      inputs:
        description:
          - What C(name), C(image), C(port) and C(address) are called where they are set, for the messages.
        type: dict
        required: true
      labels:
        description:
          - The labels that tell this collection's own container of that name from somebody else's. Without any, any
            container may be replaced.
        type: dict
        default: {}
  share:
    description:
      - What a Spark brings into a deployment, as the role C(speculative_serve) puts it together in C(tasks/nodes.yml).
    type: dict
  nodes:
    description:
      - What each Spark brings, as O(share) returned it, by host name. The first is the head, which has the API. Planned
        is what the host of the task runs.
    type: dict
  recipe:
    description:
      - With O(nodes), the recipe, as M(dgx_spark.speculative.recipe_info) returned it.
    type: dict
    default: {}
  values:
    description:
      - With O(nodes), what is served, as P(dgx_spark.speculative.deployment_values#filter) returned it.
    type: dict
    default: {}
  memory:
    description:
      - With O(nodes), the plan of the memory, as O(needs) returned it.
    type: dict
    default: {}
  config:
    description:
      - With O(share) and O(nodes), the engine options, as M(dgx_spark.speculative.trtllm_config) returned them.
    type: dict
    default: {}
  files:
    description:
      - With O(share) and O(nodes), the texts that the deployment keeps, by the name of their file, but for the options.
    type: dict
    default: {}
  own:
    description:
      - With O(share) and O(nodes), the last record of the deployment of that name. If it serves, and says the same but
        for the programs in the container, it is planned to go on as it is.
    type: dict
    default: {}
  run:
    description:
      - A deployment that is to run.
    type: dict
    suboptions:
      deployment:
        description:
          - As O(nodes) returned it, or the record of one that was seen to answer.
        type: dict
        required: true
      turn:
        description:
          - When its container is run, as O(nodes) returned it. By default that of a head comes last.
        type: str
      slot:
        description:
          - What is in the serving slot, as RV(dgx_spark.speculative.docker_access_info#module:slot).
        type: dict
      addresses:
        description:
          - The addresses of the Spark. Without them it is not asked whether it could find the others.
        type: list
        elements: str
      own:
        description:
          - The last record of the deployment of that name.
        type: dict
      state_directory:
        description:
          - The directory in which deployments live.
        type: str
        required: true
  back:
    description:
      - Going back to what served before.
    type: dict
    suboptions:
      records:
        description:
          - Of every Spark of the run, by name, RV(dgx_spark.speculative.deployment_info#module:records).
        type: dict
        required: true
      state_directory:
        description:
          - The directory in which deployments live.
        type: str
        required: true
      addresses:
        description:
          - The addresses of the Spark.
        type: list
        elements: str
        default: []
      has_image:
        description:
          - Whether the image of what served before is there.
        type: bool
        required: true
  record:
    description:
      - A deployment that was seen to answer.
    type: dict
    suboptions:
      deployment:
        description:
          - As O(nodes) returned it.
        type: dict
        required: true
      own:
        description:
          - Its record, if it has served all along.
        type: dict
      is_new:
        description:
          - Whether it was deployed in this run.
        type: bool
        required: true
      seen:
        description:
          - What was seen of it (C(answered), C(figures), C(image), C(container), C(option_check), C(memory_available)),
            as the role C(speculative_serve) puts it together in C(tasks/record.yml).
        type: dict
        required: true
      files:
        description:
          - Files of the Spark, in Base64, or empty. C(option_check) is what the image said of the options in an earlier
            run, C(ranks) what the ranks said of themselves before they started.
        type: dict
        default: {}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
  - module: dgx_spark.speculative.deployment_info
  - module: dgx_spark.speculative.fabric_check
  - module: dgx_spark.speculative.fabric_network
  - module: dgx_spark.speculative.huggingface_snapshot
  - module: dgx_spark.speculative.spark_info
"""

EXAMPLES = r"""
---
- name: Look at the ports
  dgx_spark.speculative.spark_info:
    gather: [fabric]
  register: look

- name: Plan the addresses
  dgx_spark.speculative.deployment_plan:
    fabric:
      mode: auto
    of_all: {hosts: look.fabric}
  register: plan

- name: Plan the addresses of an older page of NVIDIA's
  dgx_spark.speculative.deployment_plan:
    fabric:
      plan:
        - subnet: 192.168.200.0/24
          addresses: [192.168.200.12, 192.168.200.13]
        - subnet: 192.168.200.0/24
          addresses: [192.168.200.14, 192.168.200.15]
    of_all: {hosts: look.fabric}
  register: plan

- name: Plan the memory
  dgx_spark.speculative.deployment_plan:
    needs:
      target:
        name: openai/gpt-oss-120b
        facts: "{{ models.facts['openai/gpt-oss-120b'] }}"
      context: 131072
      memory: "{{ docker.memory }}"
      options:
        max_num_tokens: 4096
  register: plan

- name: Refuse what does not fit
  ansible.builtin.fail:
    msg: "{{ plan.message }}"
  when: plan.verdict in ['less_context', 'does_not_fit']

- name: Plan what each Spark runs
  dgx_spark.speculative.deployment_plan:
    of_all: {nodes: brings.node}
    recipe: "{{ deployment_recipe }}"
    values: "{{ served }}"
  register: plan

- name: Work out how it is run
  dgx_spark.speculative.deployment_plan:
    run:
      deployment: "{{ plan.deployment }}"
      turn: "{{ plan.turn }}"
      state_directory: "{{ ansible_facts['user_dir'] }}/.local/share/dgx-spark-speculative"
  register: way
"""

RETURN = r"""
rank:
  description: V(0) for the head, and so on.
  returned: with O(fabric)
  type: int
  sample: 0
before:
  description: The host before this one, from which it takes what both need. Empty for the head.
  returned: with O(fabric)
  type: str
  sample: spark-1
after:
  description: The host after this one, which takes that from it. Empty for the last one.
  returned: with O(fabric)
  type: str
others:
  description: The other hosts, in words. Empty for one alone.
  returned: with O(fabric)
  type: str
ports:
  description: The ports on which others will connect to this host, each with C(address), C(port), C(input) and C(use).
  returned: with O(fabric)
  type: list
  elements: dict
streams:
  description: For the test of the bandwidth, each interface with its address and that of the other end.
  returned: with O(fabric)
  type: list
  elements: str
  sample: [enp1s0f1np1=192.168.100.10=192.168.100.11]
rails:
  description: The interfaces of the cable, as this host sees them, one for each twin.
  returned: with O(fabric)
  type: list
  elements: dict
  sample:
    - interface: enp1s0f1np1
      rdma: rocep1s0f1
      port: 1
      address: 192.168.100.10
      prefix: 24
      subnet: 192.168.100.0/24
      peer_address: 192.168.100.11
      peer_interface: enp1s0f1np1
      peer_rdma: rocep1s0f1
      mtu: 9000
      speed_mbps: 200000
      manager: NetworkManager
      gid_index: 3
configure:
  description: Whether this host has to be configured.
  returned: with O(fabric)
  type: bool
  sample: false
any_configure:
  description: Whether any of the hosts has to be configured.
  returned: with O(fabric)
  type: bool
  sample: false
peer:
  description: The host to which this one proves its way, the next in the round of all. Empty for one alone.
  returned: with O(fabric)
  type: str
  sample: spark-2
measure:
  description:
    - Whether this host is to V(send) or V(receive) to measure what the cable carries. Empty for not. With
      O(fabric.bandwidth_test=auto), it was not since one of them was started, and nobody uses it.
  returned: with O(fabric)
  type: str
  sample: send
document:
  description: What the netplan file of this host is to say. Empty without RV(configure).
  returned: with O(fabric)
  type: dict
  sample: {}
ask:
  description:
    - What this host is to ask on the wire with M(dgx_spark.speculative.fabric_network) and C(state=asked) before the
      plan is final. Give its C(neighbours) to the next plan, in the host's entry of O(fabric.hosts). Empty if nothing.
    - If both ports have a cable, only that tells which of them join the two Sparks, and there are no RV(rails) before.
  returned: with O(fabric)
  type: dict
  sample: {}
card:
  description:
    - What is to be done on this host about a network card that comes late or leaves. In C(install) are files with
      C(src), C(dest) and C(mode), in C(remove) the paths of files, in C(move) how the marker of DGX OS is moved, from
      and to. Each is empty if nothing is to be done. C(lacking) is whether something should be installed and is not.
  returned: with O(fabric)
  type: dict
  sample: {install: [], remove: [], move: [], lacking: false}
renderer:
  description: What netplan hands the interfaces to.
  returned: with O(fabric)
  type: str
  sample: NetworkManager
findings:
  description: What works but not as one may expect.
  returned: with O(fabric) or O(cluster)
  type: list
  elements: str
  sample: []
lines:
  description: The plan for people, of the memory as a table with a sentence.
  returned: with O(fabric) or O(needs)
  type: list
  elements: str
  sample:
    - "spark-1: enp1s0f1np1 192.168.100.10/24, MTU 9000, to spark-2's enp1s0f1np1 192.168.100.11: as it is"
verdict:
  description:
    - V(fits), V(less_context) if it fits with RV(fitting_context), V(does_not_fit), or V(unknown) where the models
      or the memory are not known well enough.
    - It is V(does_not_fit), too, if already what is known does not fit.
  returned: with O(needs)
  type: str
  sample: fits
rows:
  description: What is needed on each Spark. C(bytes) is null where it is not known.
  returned: with O(needs)
  type: list
  elements: dict
  sample:
    - name: weights of openai/gpt-oss-120b
      bytes: 65248815744
options:
  description: Engine options for what O(needs.options) leave open; those are to be merged over them, recursively.
  returned: with O(needs)
  type: dict
  sample:
    max_batch_size: 1
    cuda_graph_config:
      max_batch_size: 1
    max_seq_len: 131072
    kv_cache_config:
      max_tokens: 131168
    enable_chunked_prefill: true
context:
  description: Tokens of one conversation that are served. Null where nobody has said so.
  returned: with O(needs)
  type: int
  sample: 131072
fitting_context:
  description:
    - The largest context, in steps of 1024 tokens, that fits. Null if that is less than 2048 tokens, or not known.
  returned: with O(needs)
  type: int
  sample: 131072
needed:
  description: Bytes that are needed on each Spark, as far as they are known.
  returned: with O(needs)
  type: int
  sample: 85614296088
room:
  description: Bytes that may be used. Null if they are not known.
  returned: with O(needs)
  type: int
  sample: 115636723712
free_for_gpu:
  description: What CUDA calls free beside what the kernel calls available. Empty where no image was asked.
  returned: with O(needs)
  type: str
  sample: 104 GB by CUDA, 118 GB available
message:
  description:
    - Why it is refused, by whom memory is held, and what to do. Empty with RV(verdict=fits) and RV(verdict=unknown).
  returned: with O(needs)
  type: str
  sample: ""
warnings:
  description: What works but not as one may expect, or what could not be counted. Ansible shows them, too.
  returned: with O(needs)
  type: list
  elements: str
  sample: []
problems:
  description:
    - What keeps the Sparks from serving as one, or the container from being made, each with what to do. The latter has
      the name of the host.
  returned: with O(cluster) or O(place)
  type: list
  elements: str
image_copied:
  description: Whether all have the image that the head has made for all.
  returned: with O(cluster)
  type: bool
copies:
  description: The files by which the Spark before is let in while something is copied. None for the head.
  returned: with O(trust)
  type: list
  elements: dict
to:
  description: The hosts that lack models, in the order in which they are copied.
  returned: with O(copies)
  type: list
  elements: str
way:
  description:
    - The Spark to which this one copies, C(worker), with its C(user), C(addresses) and C(port), and how, with C(key),
      C(known_hosts), C(streams) and C(patience). Empty for the last.
  returned: with O(trust)
  type: dict
node:
  description: What the Spark brings.
  returned: with O(share) or O(nodes)
  type: dict
container:
  description: What Docker is asked for, as the input C(trtllm_container_planned) of the role trtllm_container takes it.
  returned: with O(nodes) or O(run)
  type: dict
serves_already:
  description: Whether just this container is in the slot and runs.
  returned: with O(nodes)
  type: bool
kept:
  description: Whether what serves is what is wanted, and goes on with the programs that it was deployed with.
  returned: with O(nodes)
  type: bool
turn:
  description:
    - When the container is run. V(first) for a worker, V(last) for a head, V(at once) where no order is needed.
  returned: with O(nodes) or O(run)
  type: str
  sample: at once
script:
  description: What C(serve.sh) has to know.
  returned: with O(nodes)
  type: dict
pair:
  description: Which rank of which Sparks this is. Empty for a Spark that serves alone.
  returned: with O(nodes)
  type: dict
deployment:
  description: All that tells what is deployed, and all that is needed to deploy it again, under the keys of a record.
  returned: with O(nodes)
  type: dict
directory:
  description: Where the deployment has what is kept of it.
  returned: with O(run)
  type: str
generation:
  description:
    - The files that its container has, as M(dgx_spark.speculative.deployment_files) takes it. Empty for what an earlier
      release has deployed, which had them in RV(directory).
  returned: with O(nodes) or O(run)
  type: str
beside:
  description: The directories in RV(directory) that are mounted among its files.
  returned: with O(nodes) or O(run)
  type: list
  elements: str
files:
  description: Its files, of O(run) as they were, if it comes from a record; or those by which Sparks trust each other.
  returned: with O(nodes), O(run) or O(trust)
  type: list
  elements: dict
answers:
  description: Whether this Spark has the API.
  returned: with O(run)
  type: bool
address:
  description: The address of the API.
  returned: with O(run)
  type: str
port:
  description: The port of the API.
  returned: with O(run)
  type: int
stop:
  description: Whether what is in the slot has to be stopped before anything is run.
  returned: with O(run)
  type: bool
recorded:
  description: Whether it comes from a record.
  returned: with O(run)
  type: bool
known:
  description: Whether just this was seen to answer before.
  returned: with O(run)
  type: bool
refusal:
  description: Why it cannot be run, or come back, or what keeps Sparks from serving as one. Empty if it can.
  returned: with O(run), O(back), O(cluster), O(room) or O(copies)
  type: str
record:
  description: The record.
  returned: with O(record)
  type: dict
"""
