# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Recognise the known problems that no text shows: for each row id, return the evidence or None."""

from __future__ import annotations

import re
import time
import typing as t

from .._data.text import amount, duration, join_words
from .._deployment import nccl
from .._deployment.cluster_view import (
    PEER_LOST,
    RANK_RUNS,
    REFUSED,
    SILENT,
    WAITING_FOR_FABRIC,
    WAITING_FOR_WORKER,
    WORKER_READY,
    by_tcp,
    cores,
    describe_rail,
    differences_of,
    environment_of,
    one_subnet,
    ranks_of,
    speed,
)
from .._docker.usage import memory_holders
from .._engines.registry import STAGES, START_MARKERS
from .._server.deployment_facts import seconds_of
from .._server.log import after_last_end, reason, remarks
from .._server.server_facts import STAYS_DOWN, TRIAL_FAILED, describe_exit, load_progress, trial_of
from . import memory_curve
from .evidence import Evidence

Answer = t.Optional[str]
Fact = t.Callable[[Evidence], Answer]

GB = 1_000_000_000
# Nothing of ours was made before, so an earlier clock is wrong.
FIRST_YEAR = 2025
FULL_BYTES = 100_000_000
NEARLY_FULL_BYTES = 5 * GB
NOTABLE_SHARE = 0.08
# A container that was stopped by Docker ends by SIGTERM or, after the grace, by SIGKILL.
STOPPED_CODES = (0, 143)
STALLS_AFTER_S = 600
SPEAKS_WITHIN_S = 180
# A failed.log is as old as the run that it belongs to.
SAME_RUN_S = 1800
# Between systemd-oomd's kill and what Docker notes as the container's end.
OOMD_LEAD_S = 60
BAD_KERNEL = "7.0.0-1019-nvidia"
FORCED = re.compile(r"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS\W{1,3}\w+")


def _docker_is(state: str) -> Fact:
    return lambda evidence: evidence.docker_detail or state if evidence.docker == state else None


def docker_no_gpu(evidence: Evidence) -> Answer:
    missing = evidence.docker == "usable" and evidence.gpu_by is None
    return "no GPU runtime, hook or device is known to the Engine" if missing else None


def gpu_driver(evidence: Evidence) -> Answer:
    # Without nvidia-smi this is another machine, which serve.yml refuses by itself.
    return evidence.gpu_error if evidence.gpu_error and "there is no" not in evidence.gpu_error else None


def clock_wrong(evidence: Evidence) -> Answer:
    year = time.gmtime(evidence.now).tm_year
    return f"it is the year {year} here" if year < FIRST_YEAR else None


def no_default_route(evidence: Evidence) -> Answer:
    return "/proc/net/route has no default route" if evidence.default_route is False else None


def no_name_server(evidence: Evidence) -> Answer:
    return "/etc/resolv.conf names no server" if evidence.name_servers == [] else None


def _least_disk(evidence: Evidence, least: int, below: int) -> Answer:
    small = [disk for disk in evidence.disks if least <= disk.free < below]
    if not small:
        return None
    disk = min(small, key=lambda one: one.free)
    return f"{amount(disk.free)} of {amount(disk.total)} are free for {disk.use} in {disk.path}"


def disk_full(evidence: Evidence) -> Answer:
    return _least_disk(evidence, 0, FULL_BYTES)


def disk_nearly_full(evidence: Evidence) -> Answer:
    return _least_disk(evidence, FULL_BYTES, NEARLY_FULL_BYTES)


def shared_memory_full(evidence: Evidence) -> Answer:
    shared, host = evidence.shared_memory, (evidence.slot or {}).get("HostConfig") or {}
    if shared is None or shared.free >= FULL_BYTES or host.get("IpcMode") != "host":
        return None
    return f"{amount(shared.free)} of {amount(shared.total)} are free in {shared.path}"


def port_taken(evidence: Evidence) -> Answer:
    port = evidence.port
    if not port or not port["in_use"] or port["container"] == evidence.container:
        return None
    collided = any(found and found.problem and found.problem.id == "port_in_use" for found in _reasons(evidence))
    # The port belongs to the server itself.
    if evidence.running and not collided:
        return None
    return f"port {port['port']}: {port['description'] or port['holder']}"


def _reasons(evidence: Evidence) -> list[t.Any]:
    return [reason(text) for text in (evidence.server_log, evidence.failed_log) if text]


def cache_foreign(evidence: Evidence) -> Answer:
    return evidence.foreign_cache or None


def _jobs(evidence: Evidence) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    for name, job in evidence.jobs.items():
        if not superseded(evidence, job):
            yield name, job


def superseded(evidence: Evidence, job: t.Mapping[str, t.Any]) -> bool:
    """Return whether a deployment was verified after the job had ended."""
    ended = job.get("ended") or job.get("started") or 0
    if not isinstance(ended, (int, float)):
        return False
    return not job.get("running") and not evidence.failure and evidence.running and ended < (evidence.started or 0)


def job_cut_off(evidence: Evidence) -> Answer:
    for name, job in _jobs(evidence):
        if not job.get("finished") and not job.get("running"):
            return f"the job {name} neither runs nor has ended ({progress_of(job)})"
    return None


def download_under_way(evidence: Evidence) -> Answer:
    return next((f"{name}: {progress_of(job)}" for name, job in _jobs(evidence) if job.get("running")), None)


def progress_of(job: t.Mapping[str, t.Any]) -> str:
    return str((job.get("progress") or {}).get("text") or "no progress yet")


def _loading_stands(row: str) -> Fact:
    def fact(evidence: Evidence) -> Answer:
        if evidence.said != "loading" or _said_for(evidence) < STALLS_AFTER_S:
            return None
        line = next(
            (remark.line for remark in remarks(evidence.server_log) if remark.problem and remark.problem.id == row),
            None,
        )
        return f"{line} for {duration(_said_for(evidence))}" if line else None

    return fact


def engine_hangs(evidence: Evidence) -> Answer:
    state = evidence.state or {}
    if evidence.running and evidence.said == "running" and state.get("verdict") in ("stalled", "unhealthy"):
        return f"the container's watchdog: {state['verdict']}, {state.get('reason') or 'no reason given'}"
    if evidence.look and evidence.look.state == "unhealthy" and "hangs" in (evidence.look.why or ""):
        return evidence.look.why
    return None


def memory_held_by_others(evidence: Evidence) -> Answer:
    held = sum(
        container.get("memory_bytes") or 0
        for container in evidence.containers
        if container["name"] != evidence.container
    )
    held += sum(process["bytes"] or 0 for process in evidence.gpu_processes if process["container"] is None)
    # A desktop uses some as well.
    if held < evidence.memory.get("MemTotal", 0) * NOTABLE_SHARE or not held:
        return None
    return "; ".join(memory_holders(evidence.containers, evidence.gpu_processes, evidence.container)[:3]) or None


def memory_not_given_back(evidence: Evidence) -> Answer:
    total, available = evidence.memory.get("MemTotal", 0), evidence.memory.get("MemAvailable", 0)
    if evidence.running or evidence.containers or evidence.gpu_processes or not total:
        return None
    if available > total / 2 or evidence.memory.get("AnonPages", 0) > total / 4:
        return None
    return f"only {amount(available)} of {amount(total)} are available"


def page_cache(evidence: Evidence) -> Answer:
    memory = evidence.memory
    total, free, cached = memory.get("MemTotal", 0), memory.get("MemFree", 0), memory.get("Cached", 0)
    if not total or free > total / 8 or cached < total / 2:
        return None
    return f"{amount(cached)} are page cache, {amount(free)} of {amount(total)} are free"


def _container_state(evidence: Evidence) -> dict[str, t.Any]:
    return (evidence.slot or {}).get("State") or {}


def oom_container(evidence: Evidence) -> Answer:
    return "Docker says OOMKilled" if _container_state(evidence).get("OOMKilled") else None


def oomd_killed(evidence: Evidence) -> Answer:
    """systemd-oomd names the control group, which has the container's id, and Docker sees an end by signal 9."""
    identity, state = str((evidence.slot or {}).get("Id") or ""), _container_state(evidence)
    # Docker has started it again since, or has not.
    since = seconds_of(state.get("FinishedAt")) or evidence.started or evidence.now
    for line in reversed(evidence.oomd):
        killed, _separator, reason = line.text.partition(" due to ")
        if identity and killed.startswith("Killed ") and identity in killed and (line.at or 0) >= since - OOMD_LEAD_S:
            return f"systemd-oomd killed the container due to {reason}"
    return None


def machine_restarted(evidence: Evidence) -> Answer:
    since = (evidence.state or {}).get("since")
    if evidence.slot is None or evidence.running or not isinstance(since, (int, float)) or evidence.boot_time is None:
        return None
    was = (evidence.state or {}).get("state")
    if was not in ("running", "loading", "restarting", TRIAL_FAILED) or since >= evidence.boot_time:
        return None
    return f"state.json still says {was}, from before the machine started"


def memory_froze(evidence: Evidence) -> Answer:
    # A container that has not been started since has its last words in memory.log itself.
    context = (evidence.record or {}).get("context")
    for text in (evidence.memory_log, evidence.memory_before):
        result = memory_curve.froze(text, evidence.boot_time, context)
        if result:
            return result
    return None


def memory_guarded(evidence: Evidence) -> Answer:
    last_exit = (evidence.state or {}).get("last_exit")
    if evidence.rank and evidence.said == "failed" and "memory guard" in _reason_said(evidence):
        return _reason_said(evidence)
    if not isinstance(last_exit, dict) or last_exit.get("by") != "memory guard":
        return None
    context = (evidence.record or {}).get("context")
    return memory_curve.guarded(str(last_exit.get("reason")), evidence.memory_log, context)


def _last_exit(evidence: Evidence) -> dict[str, t.Any]:
    """Return how the server ended; nothing if it has been ready since, or was a benchmark's trial."""
    if evidence.said in ("running", TRIAL_FAILED):
        return {}
    last_exit = (evidence.state or {}).get("last_exit")
    return last_exit if isinstance(last_exit, dict) else {}


def _exit_was(*codes: int) -> Fact:
    def fact(evidence: Evidence) -> Answer:
        last_exit = _last_exit(evidence)
        code, signal = last_exit.get("code"), last_exit.get("signal")
        if code in codes or (isinstance(signal, int) and 128 + signal in codes):
            return f"the server ended with {describe_exit(last_exit)}"
        return None

    return fact


def container_exited(evidence: Evidence) -> Answer:
    state = _container_state(evidence)
    if state.get("Status") not in ("exited", "dead", "restarting") or stopped(evidence):
        return None
    error = f": {state['Error']}" if state.get("Error") else ""
    return f"exit code {state.get('ExitCode')}{error}"


def stopped(evidence: Evidence) -> Answer:
    state = _container_state(evidence)
    policy = ((evidence.slot or {}).get("HostConfig") or {}).get("RestartPolicy") or {}
    if policy.get("Name") == STAYS_DOWN and state.get("Status") in ("created", "exited"):
        return "stop.yml has stopped the container"
    if state.get("Status") == "created" and not state.get("Error"):
        return "the container was made and never started"
    orderly = state.get("ExitCode") in STOPPED_CODES or (evidence.state or {}).get("state") == "stopped"
    ended = state.get("Status") == "exited" and orderly and not state.get("OOMKilled")
    return f"the container ended in order at {state.get('FinishedAt')}" if ended else None


def container_missing(evidence: Evidence) -> Answer:
    if evidence.docker != "usable" or evidence.slot is not None or not evidence.recorded:
        return None
    return f"recorded: {', '.join(evidence.recorded)}; there is no container {evidence.container}"


def state_contradicts(evidence: Evidence) -> Answer:
    states: tuple[str, ...] = ("running", "loading", "restarting", "failed", "starting", TRIAL_FAILED)
    states += (PEER_LOST, WAITING_FOR_WORKER)
    if evidence.rank:
        states = ("starting", "failed", WAITING_FOR_FABRIC, WORKER_READY, RANK_RUNS)
    if not evidence.running or evidence.said in states:
        return None
    if evidence.started and evidence.now - evidence.started < SPEAKS_WITHIN_S:
        return None
    said = (evidence.state or {}).get("state")
    return f"state.json says {said}" if said else "there is no state.json that can be read"


def crash_loop(evidence: Evidence) -> Answer:
    if not evidence.running or evidence.said != "failed" or evidence.rank:
        return None
    return f"state.json says failed after {(evidence.state or {}).get('restarts')} restarts"


def server_refuses(evidence: Evidence) -> Answer:
    look = evidence.look
    return look.why if look and look.state == "unhealthy" and not engine_hangs(evidence) else None


def server_silent(evidence: Evidence) -> Answer:
    if evidence.said == "running" and evidence.look and evidence.look.state in ("dead", "absent"):
        return evidence.look.why
    return None


def forced_acceptance(evidence: Evidence) -> Answer:
    variables = ((evidence.slot or {}).get("Config") or {}).get("Env") or []
    for text in (*variables, evidence.files.get("serve.sh", "")):
        match = FORCED.search(text)
        if match:
            return match.group()
    return None


def _findings(evidence: Evidence) -> list[dict[str, t.Any]]:
    recorded = (evidence.record or {}).get("findings") or []
    seen = evidence.look.findings if evidence.look else ()
    return [finding for finding in (*recorded, *seen) if isinstance(finding, dict)]


def _finding(*ids: str) -> Fact:
    return lambda evidence: next(
        (str(finding.get("message")) for finding in _findings(evidence) if finding.get("id") in ids), None
    )


def drafts_useless(evidence: Evidence) -> Answer:
    unaccepted = _finding("no_draft_accepted")(evidence)
    record = evidence.record or {}
    length = (record.get("measurements") or {}).get("acceptance_length")
    best = (record.get("break_even") or {}).get("best")
    if unaccepted or not isinstance(length, (int, float)) or not isinstance(best, (int, float)) or length >= best:
        return unaccepted
    return f"acceptance length {length:.2f}, break-even {best:.2f}"


def served_name_differs(evidence: Evidence) -> Answer:
    name = (evidence.record or {}).get("served_model")
    if not name or not evidence.served or name in evidence.served:
        return None
    return f"{', '.join(evidence.served)} instead of {name}"


def cache_not_mounted(evidence: Evidence) -> Answer:
    if evidence.slot is None or "Mounts" not in evidence.slot:
        return None
    mounts = evidence.slot["Mounts"] or []
    there = any("huggingface" in str(mount.get("Destination")) for mount in mounts)
    return None if there else "no mount of the container leads to a Hugging Face cache"


def shared_memory_large(evidence: Evidence) -> Answer:
    host = (evidence.slot or {}).get("HostConfig") or {}
    size = host.get("ShmSize") or 0
    return f"shm_size is {amount(size)}" if host.get("IpcMode") != "host" and size > 4 * GB else None


def kernel_version(evidence: Evidence) -> Answer:
    return f"kernel {evidence.kernel_release}" if evidence.kernel_release == BAD_KERNEL else None


def still_loading(evidence: Evidence) -> Answer:
    state = evidence.state or {}
    # One that was ended for another one has not failed.
    begun = evidence.said in ("loading", "starting") or (evidence.said == "restarting" and not state.get("last_exit"))
    return load_progress(state, evidence.server_log)[1] if evidence.running and begun else None


def busy(evidence: Evidence) -> Answer:
    return evidence.look.why if evidence.look and evidence.look.state == "busy" and not engine_hangs(evidence) else None


def undone(evidence: Evidence) -> bool:
    """Return whether failed.log is from the failed run or from an attempt after the current deployment."""
    at = evidence.failed_log_at
    if at is None:
        return False
    deployed = seconds_of((evidence.record or {}).get("deployed_at")) or 0
    return evidence.now - at < SAME_RUN_S if evidence.failure else at > deployed


def trial(evidence: Evidence) -> Answer:
    title = trial_of(evidence.state)
    if not evidence.running or not evidence.said or not title:
        return None
    if evidence.said != TRIAL_FAILED:
        return title
    return f"{title}, which failed: {_reason_said(evidence) or 'no reason given'}"


def earlier_attempt(evidence: Evidence) -> Answer:
    if evidence.failure or not evidence.running or not undone(evidence):
        return None
    cause = reason(evidence.failed_log)
    return f"{evidence.failed_log_path}: {cause.line if cause else 'it does not say why'}"


def image_without_digest(evidence: Evidence) -> Answer:
    image = (evidence.record or {}).get("image")
    return str(image.get("id")) if isinstance(image, dict) and image.get("digests") == [] else None


def _said_for(evidence: Evidence) -> float:
    """Return for how many seconds the main process has reported the same state."""
    since = (evidence.state or {}).get("since")
    return evidence.now - since if isinstance(since, (int, float)) else 0.0


def _reason_said(evidence: Evidence) -> str:
    return str((evidence.state or {}).get("reason") or "").strip()


def _ways(evidence: Evidence) -> t.Iterator[tuple[t.Any, t.Any]]:
    return zip(evidence.cluster.rails if evidence.cluster else (), evidence.links)


def card_removed(evidence: Evidence) -> Answer:
    if evidence.cluster is None:
        return None
    if evidence.hotplug.get("powered") is False:
        return "the driver of its hot plug sees no cable (debug_state is 0)"
    # Of an interface that is there, the MTU is known.
    away = bool(evidence.links) and all(link.up is False and link.mtu is None for link in evidence.links)
    if not away or not evidence.hotplug.get("armed"):
        return None
    return f"{' and '.join(rail.interface or rail.address for rail in evidence.cluster.rails)}: not there"


def link_down(evidence: Evidence) -> Answer:
    down = [rail for rail, link in _ways(evidence) if link.up is False]
    return "; ".join(f"{rail.interface or rail.address} is down" for rail in down) or None


def fabric_address_gone(evidence: Evidence) -> Answer:
    gone = [rail for rail, link in _ways(evidence) if link.address_here is False]
    return "; ".join(f"{rail.interface or 'no interface'} does not have {rail.address}" for rail in gone) or None


def fabric_slower(evidence: Evidence) -> Answer:
    for rail, link in _ways(evidence):
        if link.up and rail.speed_mbps and link.speed_mbps and link.speed_mbps < rail.speed_mbps:
            return f"{rail.interface} runs at {speed(link.speed_mbps)}, and did at {speed(rail.speed_mbps)}"
    return None


def fabric_mtu(evidence: Evidence) -> Answer:
    for rail, link in _ways(evidence):
        if link.up and rail.mtu and link.mtu and link.mtu < rail.mtu:
            return f"{rail.interface} has MTU {link.mtu}, and had {rail.mtu}"
    return None


def link_capped(evidence: Evidence) -> Answer:
    result = [row.get("finding") for row in evidence.measured] if evidence.cluster else []
    return next((str(one).partition(". ")[0] for one in result if one), None)


def twins_in_one_network(evidence: Evidence) -> Answer:
    network = one_subnet(evidence.cluster.rails) if evidence.cluster else None
    if not evidence.cluster or network is None:
        return None
    sparks = len(evidence.cluster.nodes)
    return f"{network}: {'; '.join(describe_rail(rail, None, sparks) for rail in evidence.cluster.rails)}"


def peer_unreachable(evidence: Evidence) -> Answer:
    if not evidence.cluster or evidence.peer_answers != SILENT:
        return None
    return f"{evidence.cluster.worst_peer} does not answer at {evidence.cluster.peer_address}"


def worker_port_closed(evidence: Evidence) -> Answer:
    if not evidence.cluster or evidence.rank != 0 or evidence.peer_answers != REFUSED:
        return None
    if stopped(evidence):
        # Both are, and start.yml starts both.
        return None
    return f"{evidence.cluster.peer_address} answers, and nothing listens there on port {evidence.cluster.worker_port}"


def peer_lost(evidence: Evidence) -> Answer:
    state = evidence.state or {}
    if not evidence.running or evidence.rank != 0 or PEER_LOST not in (evidence.said, state.get("verdict")):
        return None
    return f"the container's watchdog: {PEER_LOST}, {_reason_said(evidence) or 'no reason given'}"


def _waits(evidence: Evidence) -> str:
    """Return what this node of a cluster waits for; empty if it does not wait."""
    if not evidence.running:
        return ""
    if evidence.rank == 0 and WAITING_FOR_WORKER in (evidence.said, (evidence.state or {}).get("verdict")):
        return "the worker"
    return {WAITING_FOR_FABRIC: "the fabric", WORKER_READY: "the head"}.get(evidence.said, "") if evidence.rank else ""


def waits_for_other(evidence: Evidence) -> Answer:
    what = _waits(evidence)
    return f"it waits for {what}" if what and _said_for(evidence) < STALLS_AFTER_S else None


def _waits_long(what: str) -> Fact:
    def fact(evidence: Evidence) -> Answer:
        if _waits(evidence) != what or _said_for(evidence) < STALLS_AFTER_S:
            return None
        reason = _reason_said(evidence)
        return f"it has waited for {what} for {duration(_said_for(evidence))}" + (f": {reason}" if reason else "")

    return fact


def ranks_silent(evidence: Evidence) -> Answer:
    """Detect mpirun hanging silently, because it waits for a daemon that cannot connect back."""
    if evidence.rank != 0 or evidence.said != "loading" or _said_for(evidence) < STALLS_AFTER_S:
        return None
    marks = (*START_MARKERS, *(part for stage in STAGES for part in stage.substrings))
    run = after_last_end(evidence.server_log)
    if any(mark in run for mark in marks):
        return None
    return f"no rank has said a word for {duration(_said_for(evidence))}"


def _ranks(evidence: Evidence) -> dict[str, t.Any]:
    """Return what the ranks reported at this start of the container; nothing if the server became ready since."""
    at = evidence.ranks.get("at")
    old = isinstance(at, (int, float)) and at < int(evidence.started or 0)
    return {} if old else evidence.ranks


def ranks_differ(evidence: Evidence) -> Answer:
    return next(iter(differences_of(_ranks(evidence), "error")), None)


def ranks_unequal(evidence: Evidence) -> Answer:
    return "; ".join(differences_of(_ranks(evidence), "warning")) or None


def pair_by_tcp(evidence: Evidence) -> Answer:
    """Return whether a rank uses TCP, from NCCL's log or else from its settings."""
    network = evidence.network
    if network is None or evidence.said not in nccl.RANKS_RUN:
        return by_tcp(_ranks(evidence))
    return None if network.rdma else nccl.describe_network(network)


def rdma_partly(evidence: Evidence) -> Answer:
    network = evidence.network
    if network is None or evidence.said not in nccl.RANKS_RUN or not network.missing:
        return None
    return f"{nccl.describe_network(network)}, and not {join_words(network.missing)}"


def ranks_not_started(evidence: Evidence) -> Answer:
    problem = _ranks(evidence).get("problem")
    # The messages of mpirun or ssh are nearer to the cause.
    if not problem or any(found and found.problem for found in _reasons(evidence)):
        return None
    return str(problem)


def ranks_on_one_host(evidence: Evidence) -> Answer:
    ranks = ranks_of(_ranks(evidence))
    hosts = {str(rank.get("host")) for rank in ranks}
    return (
        f"{'both' if len(ranks) == 2 else 'all'} ranks run on {hosts.pop()}"
        if len(ranks) > 1 and len(hosts) == 1
        else None
    )


def rank_on_one_core(evidence: Evidence) -> Answer:
    for rank in ranks_of(_ranks(evidence)):
        if cores(rank) == 1:
            return f"rank {rank.get('rank')} on {rank.get('host')} may use one core only"
    return None


def worker_failed(evidence: Evidence) -> Answer:
    if not evidence.running or not evidence.rank or evidence.said != "failed":
        return None
    return f"state.json says failed: {_reason_said(evidence) or 'no reason given'}"


def infiniband_not_passed(evidence: Evidence) -> Answer:
    if evidence.slot is None or evidence.cluster is None:
        return None
    host = evidence.slot.get("HostConfig") or {}
    places = [str(device.get("PathOnHost")) for device in host.get("Devices") or []]
    there = host.get("Privileged") or any(place.startswith("/dev/infiniband") for place in places)
    return None if there else "the container has no /dev/infiniband"


def memory_lock_limited(evidence: Evidence) -> Answer:
    if evidence.slot is None or evidence.cluster is None:
        return None
    limits = (evidence.slot.get("HostConfig") or {}).get("Ulimits") or []
    lock = next((limit for limit in limits if limit.get("Name") == "memlock"), None)
    if lock is not None and lock.get("Hard") == -1:
        return None
    return "the container may lock " + (
        f"{lock.get('Hard')} bytes only" if lock else "as much memory as Docker's default"
    )


def fabric_not_pinned(evidence: Evidence) -> Answer:
    if evidence.slot is None or evidence.cluster is None:
        return None
    environment = environment_of(evidence.slot)
    if not environment.get("NCCL_SOCKET_IFNAME"):
        return "the container has no NCCL_SOCKET_IFNAME"
    cards = [part for part in environment.get("NCCL_IB_HCA", "").split(",") if part]
    if len(cards) < len(evidence.cluster.rails):
        return f"NCCL_IB_HCA names {len(cards)} of {len(evidence.cluster.rails)} devices"
    return None


FACTS: dict[str, Fact] = {
    "card_removed": card_removed,
    "link_down": link_down,
    "fabric_address_gone": fabric_address_gone,
    "fabric_slower": fabric_slower,
    "fabric_mtu": fabric_mtu,
    "link_capped": link_capped,
    "twins_in_one_network": twins_in_one_network,
    "peer_unreachable": peer_unreachable,
    "worker_port_closed": worker_port_closed,
    "peer_lost": peer_lost,
    "waits_for_other": waits_for_other,
    "worker_missing": _waits_long("the worker"),
    "fabric_missing": _waits_long("the fabric"),
    "head_missing": _waits_long("the head"),
    "ranks_silent": ranks_silent,
    "ranks_differ": ranks_differ,
    "ranks_unequal": ranks_unequal,
    "pair_by_tcp": pair_by_tcp,
    "rdma_partly": rdma_partly,
    "ranks_not_started": ranks_not_started,
    "ranks_on_one_host": ranks_on_one_host,
    "rank_on_one_core": rank_on_one_core,
    "worker_failed": worker_failed,
    "infiniband_not_passed": infiniband_not_passed,
    "memory_lock_limited": memory_lock_limited,
    "fabric_not_pinned": fabric_not_pinned,
    "docker_denied": _docker_is("denied"),
    "docker_not_installed": _docker_is("not_installed"),
    "docker_not_running": _docker_is("not_running"),
    "docker_unsupported": _docker_is("unsupported"),
    "docker_no_gpu": docker_no_gpu,
    "gpu_driver": gpu_driver,
    "clock_wrong": clock_wrong,
    "no_default_route": no_default_route,
    "no_name_server": no_name_server,
    "disk_full": disk_full,
    "disk_nearly_full": disk_nearly_full,
    "port_taken": port_taken,
    "cache_foreign": cache_foreign,
    "job_cut_off": job_cut_off,
    "download_under_way": download_under_way,
    "loading_stalled_at_0": _loading_stands("loading_stalled"),
    "all_reduce_hangs": _loading_stands("all_reduce_stalled"),
    "engine_hangs": engine_hangs,
    "memory_held_by_others": memory_held_by_others,
    "memory_not_given_back": memory_not_given_back,
    "page_cache": page_cache,
    "memory_froze": memory_froze,
    "memory_guarded": memory_guarded,
    "oom_container": oom_container,
    "oomd_killed": oomd_killed,
    "may_sleep": lambda evidence: evidence.may_sleep or None,
    "machine_restarted": machine_restarted,
    "exit_killed": _exit_was(137),
    "exit_native": _exit_was(134, 139),
    "exit_usage": _exit_was(2),
    "container_exited": container_exited,
    "container_missing": container_missing,
    "stopped": stopped,
    "state_contradicts": state_contradicts,
    "crash_loop": crash_loop,
    "server_refuses": server_refuses,
    "server_silent": server_silent,
    "forced_acceptance": forced_acceptance,
    "endless_text": _finding("repetition"),
    "gibberish": _finding("garbage"),
    "tool_calls_missing": _finding("no_tool_call"),
    "drafts_useless": drafts_useless,
    "served_name_differs": served_name_differs,
    "cache_not_mounted": cache_not_mounted,
    "shared_memory_full": shared_memory_full,
    "shared_memory_large": shared_memory_large,
    "kernel_version": kernel_version,
    "trial": trial,
    "still_loading": still_loading,
    "busy": busy,
    "earlier_attempt": earlier_attempt,
    "image_without_digest": image_without_digest,
}
