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
  - Before that, it says how the Sparks are joined, whether they go together, what lets one into the next, what is
    served and what that needs of the memory, whether image and models fit on the disks, how Docker is reached, and
    whether there is a place for a container. Of a run, it says what the server is asked and what becomes of one that
    fails.
  - A task asks one of O(fabric), O(cluster), O(served), O(steps), O(room), O(trust), O(access), O(place), O(firewall),
    O(cable), O(model_copies), O(image_copies), O(page), O(share), O(nodes), O(run), O(back), O(record),
    O(review), O(listen), O(question), O(failure), O(ended) and O(start).
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
      - Whether Sparks can serve as one. Compared are machine, memory, driver, clock and Docker. A link that was looked
        at and is not good is a problem, too.
      - What is left to do to join them is RV(idle).
    type: dict
    suboptions:
      looks:
        description:
          - What M(dgx_spark.speculative.spark_info) returned as C(pair), by host name, the head first.
        type: dict
        required: true
      rails:
        description:
          - By host name, its ways through the cable, each with its C(address).
        type: dict
        required: true
      settled:
        description:
          - RV(settled) of this host.
        type: bool
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
      findings:
        description:
          - What is known before of the cable of this host that may surprise.
        type: list
        elements: str
        default: []
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
  served:
    description:
      - What is served, and where each value comes from that is not the recipe's; what that needs of the memory of a
        Spark; and what the engine is told. Fails with options that the engine would refuse, as they are written or with
        what the plan adds, as M(dgx_spark.speculative.trtllm_config) does.
      - What somebody has given is stronger than what a benchmark has chosen, and that stronger than the recipe. A
        choice holds as long as recipe, image and models are those that were measured.
      - Adds up the weights of target and draft model, the KV cache of the wanted context, and 10 GB of workspace, and
        compares the sum with the memory there is, before anything is downloaded.
      - The KV cache is counted for C(parallel) conversations. Each takes C(context) tokens and three times
        what is drafted for a pass, as TensorRT-LLM makes a sequence longer for its drafts, rounded up to whole blocks,
        and a block more. Another block is for the dummy request that fills up the batches of CUDA graphs.
      - A value in it takes two bytes unless C(kv_cache_config.dtype) in the options says less. With C(auto) it takes
        one where the checkpoint asks for FP8, as TensorRT-LLM follows it; the head of C(eagle3) has its target's type.
      - The share of C(kv_cache_config.free_gpu_memory_fraction) stays a cap, for the KV cache, on what the weights
        leave.
      - With C(kv_cache) V(planned) the KV cache is as large as C(context) and C(parallel) need it. V(fraction) leaves
        its size to that share, and the context to the model; needed is room for 2048 tokens then.
      - On several Sparks the target's weights and the KV cache are split; draft, workspace and reserve are counted on
        each.
      - Chunked prefill is switched on where the context is longer than C(max_num_tokens) and the options do not say,
        since the server refuses longer prompts without it. It works together with all methods of drafting, and keeps
        the workspace at the size of C(max_num_tokens) tokens.
      - It is left off for models with multi-head latent attention, for which TensorRT-LLM does not support it on a
        GB10.
      - Layers with a sliding window count like the others, because TensorRT-LLM gives them as much unless
        C(kv_cache_config.max_attention_window) says otherwise.
    type: dict
    suboptions:
      recipe:
        description:
          - The recipe, as M(dgx_spark.speculative.recipe_info) returned it. Its C(sparks) has to divide the attention
            heads of the target model.
        type: dict
        required: true
      given:
        description:
          - The inputs of the role C(speculative_serve), by the recipe's names C(target), C(draft), C(method),
            C(draft_length), C(context), C(parallel), C(kv_cache) and C(family), and C(image) and C(break_even) (what
            drafts cost).
          - C(method) and C(draft_length) are null where nobody has given them. Any other one that is the recipe's
            counts as the recipe's. C(method) is empty if C(speculative_config) in the options says it.
        type: dict
        required: true
      options:
        description:
          - Engine options in TensorRT-LLM's own spelling, merged over the recipe's. C(max_seq_len) in them wins over
            C(context) and may be more than the model was made for, C(max_batch_size) over C(parallel).
        type: dict
        default: {}
      use_benchmark:
        description:
          - Whether a benchmark's choice is wanted.
        type: bool
        default: true
      reserve_gib:
        description:
          - GiB of the memory that are kept for the desktop and the system.
        type: raw
        default: 12
      guard:
        description:
          - Whether the memory guard is on, or its limits C(floor_gib) and C(seconds).
        type: raw
        default: true
      overcommit:
        description:
          - Whether it may be served though the memory does not suffice. Otherwise the plan is printed and the task
            fails.
        type: bool
        default: false
      incomplete:
        description:
          - Whether a look has failed, which is told of elsewhere. Nothing is said then of a memory or of models that
            are not known.
        type: bool
        default: false
      memory:
        description:
          - The Spark's memory, in bytes, with the keys C(total), C(available), C(slot) (what the running deployment
            gives back) and C(holders) (who else holds memory, a list of sentences), as
            RV(dgx_spark.speculative.spark_info#module:docker.memory) has it.
          - C(cuda) is what a container of the image was told, where one was asked. Its C(free) is what CUDA calls free,
            and C(unused) and C(available) are C(MemFree) and C(MemAvailable) at the same moment. On a GB10 CUDA counts
            what files hold as used, so a C(free) that is too small only leads to a warning with the remedy.
          - Without C(available) or C(slot), everything but O(served.reserve_gib) counts as free.
        type: dict
      slot:
        description:
          - What is in the serving slot, as RV(dgx_spark.speculative.spark_info#module:docker.slot).
        type: dict
        default: {}
      records:
        description:
          - Of every Spark, by name, RV(dgx_spark.speculative.spark_info#module:records). The head's has the
            benchmark's choice.
        type: dict
        default: {}
      facts:
        description:
          - Of every Spark, by name, what the files of its models say, by model, in the form in which
            M(dgx_spark.speculative.huggingface_snapshot) returns it. The head's count.
          - Used are C(weights_bytes), C(layers), C(attention_heads), C(kv_heads), C(head_dim), C(max_context),
            C(kv_cache_dtype) and C(model_type). The head of C(eagle3) has one layer unless they say otherwise.
        type: dict
        default: {}
      models:
        description:
          - Of every Spark, by name, its models with their commits or fingerprints. The head's count. One that is not
            known yet is taken for the same.
        type: dict
        default: {}
  steps:
    description:
      - Which steps of a run have nothing to do, by what was seen on the head, and of several Sparks on each.
    type: dict
    suboptions:
      looks:
        description:
          - What M(dgx_spark.speculative.spark_info) returned as C(docker), by host name, the head first.
        type: dict
        required: true
      views:
        description:
          - What M(dgx_spark.speculative.huggingface_snapshot) returned, by host name.
        type: dict
        required: true
      plans:
        description:
          - What this module returned with O(served), by host name.
        type: dict
        required: true
      pairs:
        description:
          - As O(cluster.looks). Empty for one Spark.
        type: dict
        required: true
      links:
        description:
          - What this module returned as RV(idle) with O(cluster), by host name. Empty for one Spark.
        type: dict
        required: true
  room:
    description:
      - Refuses image and models that do not fit on the disks of the host of the task, which takes them from the Spark
        before it, and on the head's. Without O(room.looks), it refuses what the host downloads itself and has no room
        for, and a draft model that does not belong to its target.
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
  model_copies:
    description:
      - Which Sparks have models copied to them by the one before. Refuses those in directories of the host of the task
        that are not as large as on the head.
    type: dict
    suboptions:
      views:
        description:
          - What M(dgx_spark.speculative.huggingface_snapshot) returned on each host, in the order of the ranks.
        type: dict
        required: true
      state_directory:
        description:
          - Where this collection keeps its files on the host of the task.
        type: str
        required: true
      verify:
        description:
          - Whether whoever takes models in reads each file again.
        type: bool
        default: false
  trust:
    description:
      - What lets the head into the containers of the others, and each Spark hand on what it has to the next.
    type: dict
    suboptions:
      rails:
        description:
          - By host name, the head first, its ways through the cable, each with its C(address).
        type: dict
        required: true
      looks:
        description:
          - As O(cluster.looks).
        type: dict
        required: true
      keys:
        description:
          - By host name, the C(public_key) that was just made, or an empty mapping.
        type: dict
        required: true
      users:
        description:
          - By host name, as whom it takes in copies.
        type: dict
        required: true
      pythons:
        description:
          - By host name, with what interpreter it does so.
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
  access:
    description:
      - How the tasks of a run reach Docker. Refuses a Docker that cannot serve a model, and a run that sudo started.
    type: dict
    suboptions:
      docker:
        description:
          - RV(dgx_spark.speculative.spark_info#module:docker) of this host.
        type: dict
        required: true
      need_gpu:
        description:
          - Whether a Docker is refused that cannot give the GPU to a container.
        type: bool
        default: true
      add_to_group:
        description:
          - Whether the login user may be added to the group C(docker).
        type: bool
        default: true
  place:
    description:
      - What was found where a container is to be. The task fails with everything that stands in the way.
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
          - RV(dgx_spark.speculative.spark_info#module:docker) as it was found.
        type: dict
        required: true
      registry:
        description:
          - What M(dgx_spark.speculative.registry_image_info) returned of an image that is not here yet.
        type: dict
        default: {}
      alternative:
        description:
          - What to run instead if the registry has no such image.
        type: str
        default: ''
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
      listens:
        description:
          - Addresses and ports that are not set by C(port) in O(place.inputs), with the name of the C(input) that does.
        type: list
        elements: dict
        default: []
      labels:
        description:
          - The labels that tell this collection's own container of that name from somebody else's. Without any, any
            container may be replaced.
        type: dict
        default: {}
      publish:
        description:
          - What it publishes. On Docker's bridge a server has to be reached by that, and not by everybody.
        type: dict
        suboptions:
          network:
            description:
              - Its network. Nothing is published without V(bridge).
            type: str
            required: true
          ports:
            description:
              - What it is to publish, as it was asked for.
            type: list
            elements: str
            default: []
          server:
            description:
              - The port on which the server listens in it. With V(0) it may publish anything.
            type: int
            default: 0
          allow_unauthenticated:
            description:
              - Whether it may be published on other addresses than the loopback address.
            type: bool
            default: false
  firewall:
    description:
      - Which rules let containers in to what one of them publishes. Containers on Docker's default bridge reach a port
        of the host only where its firewall lets packets in from C(docker0).
    type: dict
    suboptions:
      network:
        description:
          - The network of the container that publishes. Nothing is published without V(bridge).
        type: str
        required: true
      published_ports:
        description:
          - What it publishes, each as C(ADDRESS:PORT:CONTAINER_PORT), as Docker spells them. A leading address may be
            left out, and C(/tcp) or C(/udp) may follow.
        type: list
        elements: str
        default: []
      former:
        description:
          - What earlier ones may have published.
        type: list
        elements: str
        default: []
  cable:
    description:
      - Whether the cable may be taken from what is in the serving slot, as a change of the network's does. Refuses to
        take it from one half of a model that serves.
    type: dict
    suboptions:
      slot:
        description:
          - What M(dgx_spark.speculative.spark_info) returned of it. Left out if it is empty.
        type: dict
      container:
        description:
          - The name of the container.
        type: str
        required: true
      others:
        description:
          - Those with which it serves, in words, as O(fabric) returns them.
        type: str
        required: true
  image_copies:
    description:
      - Who lacks the image that the head has for all.
    type: dict
    suboptions:
      loaded:
        description:
          - The host that has just loaded it, and is refused if it lacks it still.
        type: str
        default: ""
      looks:
        description:
          - As O(cluster.looks).
        type: dict
        required: true
  page:
    description:
      - A chat page for the model, in a container on Docker's bridge.
    type: dict
    suboptions:
      name:
        description:
          - The name of its container and volume.
        type: str
        required: true
      address:
        description:
          - The IP address of the host on which it is published.
        type: str
        required: true
      port:
        description:
          - The port on which it is published.
        type: int
        required: true
      endpoint:
        description:
          - Where a container reaches the model, with or without C(/v1).
        type: str
        required: true
      environment:
        description:
          - Settings of Open WebUI's own, which count over those of this collection.
        type: dict
        default: {}
  share:
    description:
      - What a Spark brings into a deployment, as the role C(speculative_serve) puts it together in C(tasks/render.yml),
        with the directory of the C(programs) that run in the container, and its C(own) last record of the deployment of
        that name. If that serves, and says the same but for the programs, it is planned to go on as it is.
    type: dict
  nodes:
    description:
      - What each Spark brings, as O(share) returned it, by host name. The first is the head, which has the API. Planned
        is what the host of the task runs.
    type: dict
  recipe:
    description:
      - With O(share) and O(nodes), the recipe, as M(dgx_spark.speculative.recipe_info) returned it.
    type: dict
    default: {}
  plan:
    description:
      - With O(share) and O(nodes), what O(served) returned.
    type: dict
    default: {}
  script:
    description:
      - With O(nodes), the template of what starts the server, a file on the controller.
    type: path
    default: ""
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
          - What is in the serving slot, as RV(dgx_spark.speculative.spark_info#module:docker.slot).
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
      proven:
        description:
          - Whether there is a record of just what is in the slot. It is then put aside, and not replaced, if it runs.
        type: bool
        default: false
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
          - Of every Spark of the run, by name, RV(dgx_spark.speculative.spark_info#module:records).
        type: dict
        required: true
      state_directory:
        description:
          - The directory in which deployments live.
        type: str
        required: true
      docker:
        description:
          - RV(dgx_spark.speculative.spark_info#module:docker), asked for the image of what served before and for the
            port that it had.
        type: dict
        required: true
  record:
    description:
      - The record of a deployment that was seen to answer. It is an error if something else is in the slot by now.
    type: dict
    suboptions:
      deployment:
        description:
          - As O(nodes) returned it, or as it was recorded.
        type: dict
        required: true
      records:
        description:
          - The Spark's RV(dgx_spark.speculative.spark_info#module:records) from before.
        type: dict
        required: true
      seen:
        description:
          - What M(dgx_spark.speculative.spark_info) returned with C(machine), C(docker) and C(records) since.
        type: dict
        required: true
      container:
        description:
          - The container that was run, as the role trtllm_container hands it out in C(trtllm_container_definition).
        type: dict
        required: true
      option_check:
        description:
          - What the image said of the options in this run, as the role trtllm_container hands it out. Empty if it was
            not asked.
        type: dict
        default: {}
      checked:
        description:
          - RV(checked), for what it said in an earlier one.
        type: str
        default: ""
      answered:
        description:
          - Of every Spark, by name, the answer to the question, as M(dgx_spark.speculative.completions_probe) returned
            it. The head's server speaks for all.
        type: dict
        required: true
      figures:
        description:
          - The same of what was measured.
        type: dict
        required: true
      ranks:
        description:
          - Of every Spark, by name, what its ranks said of themselves before they started. The head's count.
        type: dict
        default: {}
      networks:
        description:
          - Of every Spark, by name, the network that its rank's NCCL uses, as M(dgx_spark.speculative.spark_info)
            returned it in RV(dgx_spark.speculative.spark_info#module:records.network).
        type: dict
        default: {}
  review:
    description:
      - What has served all along keeps its record, and what its sign of life shows is added.
    type: dict
    suboptions:
      own:
        description:
          - The record.
        type: dict
        required: true
      answered:
        description:
          - As O(record.answered).
        type: dict
        required: true
      origins:
        description:
          - Where its values come from now.
        type: dict
        required: true
      networks:
        description:
          - As O(record.networks).
        type: dict
        default: {}
      verdict:
        description:
          - What a benchmark has found of it, RV(dgx_spark.speculative.spark_info#module:records.verdict). Left out of
            the record if another configuration was measured.
        type: dict
        default: {}
  listen:
    description:
      - Where a Spark listens. Fails where that would let in everybody, or where two Sparks could not reach each other.
    type: dict
    suboptions:
      host:
        description:
          - The address of the API.
        type: str
        required: true
      port:
        description:
          - Its port.
        type: raw
        required: true
      expose:
        description:
          - Who else may use it, V(local) for nobody.
        type: str
        default: local
      allow_unauthenticated:
        description:
          - Whether everybody may who reaches that address.
        type: bool
        default: false
      network:
        description:
          - The container's network, V(host) or V(bridge).
        type: str
        default: host
      image:
        description:
          - The image that is to serve.
        type: str
        required: true
      published_ports:
        description:
          - What the container publishes on the bridge. The default is O(listen.port) on O(listen.host).
        type: list
        elements: str
      recipe:
        description:
          - The recipe, whose C(fallback) names another one.
        type: dict
        default: {}
      cache_directory:
        description:
          - Where the models are, which share a disk with the image or not.
        type: str
        required: true
  question:
    description:
      - Whether what runs is new, and what its server is asked.
    type: dict
    suboptions:
      probe:
        description:
          - The recipe's question, with C(prompt), C(expect) and C(max_tokens).
        type: dict
        default: {}
      chat:
        description:
          - Whether the target model is a chat model.
        type: bool
        required: true
      tools:
        description:
          - Whether it can call tools.
        type: bool
        required: true
      recorded:
        description:
          - Of every Spark, by name, RV(recorded) of O(run).
        type: dict
        required: true
      known:
        description:
          - Of every Spark, by name, RV(known) of O(run).
        type: dict
        required: true
      changed:
        description:
          - Of every Spark, by name, whether its container was made or started.
        type: dict
        required: true
  failure:
    description:
      - What becomes of a run that failed.
    type: dict
    suboptions:
      result:
        description:
          - The result of the task that failed. Empty on a Spark that is here because another one failed.
        type: dict
        required: true
      before:
        description:
          - The record of what served before.
        type: dict
      again:
        description:
          - What is said if that serves again.
        type: str
        required: true
      slots:
        description:
          - Of every Spark, by name, RV(dgx_spark.speculative.spark_info#module:docker.slot) from before the run. With
            it, O(failure.before) comes back only if any of them ran.
        type: dict
        default: {}
      changed:
        description:
          - As O(question.changed).
        type: dict
        default: {}
      known:
        description:
          - As O(question.known).
        type: dict
        default: {}
  ended:
    description:
      - Fails with what became of a run that has gone back, or could not.
    type: dict
    suboptions:
      whys:
        description:
          - Of every Spark, by name, RV(why) of O(failure).
        type: dict
        required: true
      log:
        description:
          - Where the log of what did not get ready is kept.
        type: str
        default: ""
      again:
        description:
          - As RV(again).
        type: str
        default: ""
      result:
        description:
          - The result of the task by which what served before could not be started again either.
        type: dict
        default: {}
  start:
    description:
      - What a start waits for. Fails where a Spark does not have the addresses that its container was made for, or
        the deployment that the others have.
    type: dict
    suboptions:
      labels:
        description:
          - The labels of the container in the serving slot.
        type: dict
        required: true
      recorded:
        description:
          - The record of that.
        type: dict
      addresses:
        description:
          - The addresses of the Spark.
        type: list
        elements: str
        required: true
      everybody:
        description:
          - By host name, O(start.labels). Sparks that are to serve as one with different ones are refused.
        type: dict
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
seealso:
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

- name: Decide what is served
  dgx_spark.speculative.deployment_plan:
    served:
      recipe: "{{ deployment_recipe }}"
      given:
        image: "{{ deployment_recipe.image }}"
        method: eagle3
        context: 131072
      memory: "{{ docker.memory }}"
    of_all: {facts: models.facts}
  register: plan

- name: Plan what each Spark runs
  dgx_spark.speculative.deployment_plan:
    of_all: {nodes: brings}
    recipe: "{{ deployment_recipe }}"
    plan: "{{ plan }}"
    script: serve.sh.j2
  register: node

- name: Work out how it is run
  dgx_spark.speculative.deployment_plan:
    run:
      deployment: "{{ node.deployment }}"
      turn: "{{ node.turn }}"
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
  description:
    - The host before this one, from which it takes what both need. Empty for the head.
    - With O(failure) the record of what comes back. Null if nothing does.
    - With O(run) what becomes of what is in the slot before anything is run, V(aside) or V(stop). Empty for nothing.
  returned: with O(fabric), O(failure) or O(run)
  type: raw
  sample: spark-1
after:
  description: The host after this one, which takes that from it. Empty for the last one.
  returned: with O(fabric)
  type: str
of_another:
  description: That another Spark has the message with the reason.
  returned: with O(fabric), if the Sparks cannot be joined, but for the head
  type: bool
  sample: true
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
  description:
    - The interfaces of the cable, as this host sees them, one for each twin; with O(cluster) as they were proven, or
      else as they were given.
  returned: with O(fabric) or O(cluster)
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
prove:
  description: What of RV(rails) there is to prove as it is. Empty where a host has to be configured.
  returned: with O(fabric)
  type: list
  elements: dict
  sample: []
settled:
  description: Whether on this host nothing of the cable is to be done but to prove it.
  returned: with O(fabric)
  type: bool
  sample: true
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
  description:
    - The plan for people, of the memory as a table with a sentence. Of what is refused with O(served) nothing else is
      returned.
  returned: with O(fabric), O(served) or O(page)
  type: list
  elements: str
  sample:
    - "spark-1: enp1s0f1np1 192.168.100.10/24, MTU 9000, to spark-2's enp1s0f1np1 192.168.100.11: as it is"
verdict:
  description:
    - V(fits), V(less_context) if it fits with RV(fitting_context), V(does_not_fit), or V(unknown) where the models
      or the memory are not known well enough.
    - It is V(does_not_fit), too, if already what is known does not fit.
  returned: with O(served)
  type: str
  sample: fits
rows:
  description: What is needed on each Spark. C(bytes) is null where it is not known.
  returned: with O(served)
  type: list
  elements: dict
  sample:
    - name: weights of openai/gpt-oss-120b
      bytes: 65248815744
options:
  description: Engine options for what the given ones leave open; those are to be merged over them, recursively.
  returned: with O(served)
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
  returned: with O(served)
  type: int
  sample: 131072
fitting_context:
  description:
    - The largest context, in steps of 1024 tokens, that fits. Null if that is less than 2048 tokens, or not known.
  returned: with O(served)
  type: int
  sample: 131072
kv_cache_bytes:
  description: Bytes of the KV cache on each Spark. Null if they are not known.
  returned: with O(served)
  type: int
  sample: 9664094208
needed:
  description: Bytes that are needed on each Spark, as far as they are known.
  returned: with O(served)
  type: int
  sample: 85614296088
room:
  description: Bytes that may be used. Null if they are not known.
  returned: with O(served)
  type: int
  sample: 115636723712
takes:
  description:
    - The bytes that the server takes on each Spark, with RV(share) without those of its KV cache. Null if they are not
      known.
  returned: with O(served)
  type: int
  sample: 76300000000
share:
  description: The share of the rest that the KV cache takes by C(kv_cache) V(fraction), otherwise V(0.0).
  returned: with O(served)
  type: float
  sample: 0.0
guard:
  description: What the memory guard is told of its limits. Empty for the usual ones.
  returned: with O(served)
  type: str
  sample: ""
free_for_gpu:
  description: What CUDA calls free beside what the kernel calls available. Empty where no image was asked.
  returned: with O(served)
  type: str
  sample: 104 GB by CUDA, 118 GB available
message:
  description:
    - Why it would be refused without O(served.overcommit), by whom memory is held, and what to do. Empty with
      RV(verdict=fits) and RV(verdict=unknown).
  returned: with O(served)
  type: str
  sample: ""
warnings:
  description: What works but not as one may expect, or what could not be counted. Ansible shows them, too.
  returned: with O(served)
  type: list
  elements: str
  sample: []
problems:
  description: What keeps the Sparks from serving as one, each with what to do.
  returned: with O(cluster)
  type: list
  elements: str
joins:
  description: The user who has to be added to the group C(docker). Empty for nobody.
  returned: with O(access)
  type: str
member:
  description: Whether the login user is in that group, or is by then.
  returned: with O(access)
  type: bool
become:
  description: Whether tasks that use Docker need C(become).
  returned: with O(access)
  type: bool
become_method:
  description: The become plugin for that.
  returned: with O(access)
  type: str
  sample: dgx_spark.speculative.sg
rules:
  description:
    - Rules that accept what comes from C(docker0), each with C(chain), C(port), which is null for every port, and
      C(state). Those that are V(absent) come last.
  returned: with O(firewall)
  type: list
  elements: dict
  sample:
    - chain: INPUT
      port: 8000
      state: present
    - chain: DOCKER-USER
      port:
      state: present
steps:
  description:
    - The steps that have nothing to do, of V(image), V(options) and V(models), and with several Sparks V(link),
      V(trust), V(ssh), V(image_copies) and V(model_copies).
  returned: with O(steps)
  type: list
  elements: str
  sample: [image, options, models]
content:
  description:
    - What is sent. Of the image that the head has for all, its C(reference), its C(fingerprint), which is its layers
      and settings as one text, and its size in C(bytes). Of models, where they lie and which they are.
  returned: with O(image_copies) and O(model_copies)
  type: dict
places:
  description: The directories in which models may be taken in.
  returned: with O(model_copies)
  type: dict
to:
  description: The hosts that lack it, or models, in the order in which they are copied.
  returned: with O(image_copies) and O(model_copies)
  type: list
  elements: str
  sample: [spark-2]
published:
  description: What its container publishes, in Docker's spelling.
  returned: with O(page)
  type: str
  sample: 127.0.0.1:3000:8080
url:
  description: Where it is on the host itself.
  returned: with O(page)
  type: str
  sample: http://127.0.0.1:3000
environment:
  description: The environment variables of its container.
  returned: with O(page)
  type: dict
asks:
  description: Where it reaches the model.
  returned: with O(page)
  type: str
  sample: http://172.17.0.1:8000/v1
sees:
  description: The beginning of a sentence about what a container sees there.
  returned: with O(page)
  type: str
idle:
  description:
    - What has nothing to do on this host, V(link) where the cable is as it was planned, and proven, and V(trust) where
      the host trusts just the keys of the others.
  returned: with O(cluster)
  type: list
  elements: str
  sample: [link, trust]
image_copied:
  description: Whether all have the image that the head has made for all.
  returned: with O(cluster)
  type: bool
sha256:
  description: What tells those files from others, as C(trusted) of M(dgx_spark.speculative.spark_info) does.
  returned: with O(trust)
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
copies:
  description: The files by which the Spark before is let in while something is copied. None for the head.
  returned: with O(trust)
  type: list
  elements: dict
way:
  description:
    - The Spark to which this one copies, C(worker), with its C(user), C(addresses) and C(port), and how, with C(key),
      C(known_hosts), C(streams) and C(patience). Empty for the last.
  returned: with O(trust)
  type: dict
public_key:
  description: The public half of the key of this host.
  returned: with O(trust)
  type: str
node:
  description: What the Spark brings, as containers are planned with it.
  returned: with O(share) or O(nodes)
  type: dict
own:
  description: The last record of the deployment of that name.
  returned: with O(share)
  type: dict
log_level:
  description: The server's log level.
  returned: with O(share)
  type: str
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
  description:
    - Its files, of O(run) as they were, if it comes from a record; or those by which Sparks trust each other. With
      O(share) a mapping of the texts of the programs by their name.
  returned: with O(share), O(nodes), O(run) or O(trust)
  type: raw
answers:
  description: Whether this Spark has the API.
  returned: with O(run) or O(start)
  type: bool
address:
  description: The address of the API.
  returned: with O(run) or O(listen)
  type: str
port:
  description: The port of the API. V(0) with O(listen) on a Spark that has none.
  returned: with O(run) or O(listen)
  type: int
provisional:
  description: Whether Docker must not start it again until it is on record.
  returned: with O(run)
  type: bool
reserved:
  description:
    - The directories of the records that are written once it answers, with their files as
      M(dgx_spark.speculative.deployment_files) reserves room for them. Empty if just this is on record.
  returned: with O(nodes) or O(back)
  type: list
  elements: dict
recorded:
  description: Whether it comes from a record.
  returned: with O(run)
  type: bool
known:
  description: Whether just this was seen to answer before.
  returned: with O(run)
  type: bool
refusal:
  description:
    - What keeps Sparks from serving as one, or why what waits for others that are not there is not waited for. Empty if
      nothing does.
  returned: with O(cluster) or O(start)
  type: str
record:
  description: The record.
  returned: with O(record) or O(review)
  type: dict
replaced:
  description:
    - The record of what it takes the place of, for the way back. Null if that was the same.
  returned: with O(record)
  type: dict
served:
  description:
    - The values by the recipe's names, C(benchmark) (C(draft_length), C(method), C(date) and C(sentence) of the choice
      that was taken, or empty), C(break_even), C(origins) and C(lines).
    - In C(origins), by name, C(from) is V(benchmark) or V(given), and C(says) tells a person value and place.
    - C(break_even) has the acceptance lengths from which drafts pay, for one request at a time on hardware whose limit
      is reading memory. With a mixture of experts it depends on how far the tokens of a pass share their experts, hence
      C(best) and C(worst). It is null without drafts, and when nothing is known of their cost.
  returned: with O(served)
  type: dict
sparks:
  description: How many Sparks serve as one.
  returned: with O(served)
  type: int
engine_options:
  description: RV(options), and over them those that were given.
  returned: with O(served)
  type: dict
config:
  description:
    - What M(dgx_spark.speculative.trtllm_config) makes of them. With O(share) models are where the container has them.
  returned: with O(served) or O(share)
  type: dict
checked:
  description: A hash of image and options, by which what the image says of them is remembered.
  returned: with O(served)
  type: str
options_served:
  description: Whether what is in O(served.slot) was started with just these options.
  returned: with O(served)
  type: bool
closely:
  description: What M(dgx_spark.speculative.spark_info) is to look at in Docker, but for the container.
  returned: with O(listen)
  type: dict
alternative:
  description:
    - What to run instead if the image cannot be had, or refuses its options. Empty without a C(fallback) of the recipe,
      and for another image than the recipe's.
  returned: with O(listen) and O(served)
  type: str
from_registry:
  description: Whether the Spark takes the image from its registry.
  returned: with O(listen)
  type: bool
is_new:
  description: Whether any Spark runs what was not seen to answer before.
  returned: with O(question)
  type: bool
kind:
  description: V(chat) or V(completion).
  returned: with O(question)
  type: str
prompt:
  description: The question. Empty for the one of M(dgx_spark.speculative.completions_probe).
  returned: with O(question)
  type: str
expect:
  description: What the answer must match. Null for what that expects.
  returned: with O(question)
  type: list
  elements: str
max_tokens:
  description: How long the answer may be.
  returned: with O(question)
  type: int
tools:
  description: Whether a tool call is tried.
  returned: with O(question)
  type: bool
why:
  description: Why the run failed.
  returned: with O(failure)
  type: str
untouched:
  description: Whether the run is known to have changed no container, by O(failure.changed) and O(failure.known).
  returned: with O(failure)
  type: bool
again:
  description: What is said of what served before.
  returned: with O(failure)
  type: str
lets_in:
  description: The address at which a worker lets its head in. Empty for a head, and for a Spark alone.
  returned: with O(start)
  type: str
patience:
  description: How many seconds a worker has for that.
  returned: with O(start)
  type: int
gone:
  description: Which addresses are not there any more, or which Sparks have different deployments. Empty if all is well.
  returned: with O(start)
  type: str
"""
