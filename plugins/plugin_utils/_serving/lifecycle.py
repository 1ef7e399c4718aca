# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The course of a run: where a Spark listens, what its server is asked, and what becomes of a run that fails."""

from __future__ import annotations

import ipaddress
import typing as t
from urllib.parse import urlsplit

from ...module_utils._data.text import in_brackets
from ...module_utils._deployment import names
from ...module_utils._deployment.records import nodes_of
from .._engines.engine import Engine
from .._recipe.text import join_words
from .rollback import describe_mixed

Mapping = t.Mapping[str, t.Any]
ByHost = t.Mapping[str, t.Any]

# Maximum tokens of the probe, and of a liveness probe.
ANSWER_TOKENS = 1024
LIVENESS_TOKENS = 16
# Seconds that start.yml waits until the head can log in to a worker.
PATIENCE_S = 60


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_interface(address).ip.is_loopback
    except ValueError:
        return False


def exposure_problem(
    engine: Engine, host: str, expose: str, allow_unauthenticated: bool, network: str, hosts: t.Sequence[str]
) -> str:
    """Return why the server must not listen there; empty if it may."""
    if not _is_loopback(host) and not allow_unauthenticated:
        return (
            f"speculative_serve_host is {host}: anyone who can reach that address could use the server and replace the "
            f"model's weights, because {engine.words} has no authentication. To serve other machines, set "
            "speculative_serve_expose: lan (a proxy with API keys). To accept the risk, set "
            "speculative_serve_allow_unauthenticated: true."
        )
    if expose != "local" and not _is_loopback(host):
        return (
            f"speculative_serve_expose is {expose}, but speculative_serve_host is {host}: clients could bypass the "
            "proxy and its API keys. Set speculative_serve_host to 127.0.0.1, or speculative_serve_expose to local."
        )
    if network == "bridge" and len(hosts) > 1:
        return (
            "engine_container_network is bridge, but a deployment on several Sparks needs the host network. Set it to "
            "host."
        )
    return ""


def url_of(address: str, port: t.Any) -> str:
    """Return the URL on the host itself. A server on every address is reached on the loopback address."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    return f"http://{in_brackets(reached)}:{port}"


def api_endpoint(name: str, hosts: t.Sequence[str], host: str, port: t.Any) -> dict[str, t.Any]:
    """Return where a Spark listens, and whether it queries the registry.

    Only the head has the API. The workers get the image from it, and may have no internet.
    """
    is_head = name == hosts[0]
    return {"port": port if is_head else 0, "address": host if is_head else "127.0.0.1", "pull": is_head}


def docker_query(
    place: Mapping, network: str, image: str, published_ports: t.Any, compare_path: str
) -> dict[str, t.Any]:
    """Return the query to Docker before something listens at the endpoint.

    On the bridge the server's own port does not matter to other programs.
    """
    port, address = int(place["port"]), place["address"]
    bridge = network == "bridge"
    usual = [f"{in_brackets(address)}:{port}:{port}"] if port else []
    published = usual if published_ports is None else published_ports
    return {
        "image": image,
        "address": address,
        "usage": True,
        "compare_path": compare_path,
        **({"published_ports": published} if bridge else {"port": port} if port else {}),
    }


def former_query(name: str, hosts: t.Sequence[str], deployment: Mapping, cache_directory: str) -> dict[str, t.Any]:
    """Return what spark_info is to look at in Docker before a recorded deployment listens again where it did."""
    place = api_endpoint(name, hosts, deployment["listens_on"], urlsplit(deployment["url"]).port)
    container, image = deployment["container"], deployment["image"]["id"]
    return docker_query(place, container["network"], image, container["published_ports"], cache_directory)


def probe_request(
    from_record: bool, verified_before: ByHost, changed: ByHost, probe: Mapping, chat: bool, tools: bool
) -> dict[str, t.Any]:
    """Return the request to the server, and whether the deployment is new, that is, without a record of it.

    Only a record proves an answer, because the run that made the container may have been interrupted. An unchanged or
    restored server gets only a liveness probe: its figures are in the record.
    """
    is_new = not from_record and any(
        changed[each] is True or verified_before[each] is False for each in verified_before
    )
    return {
        "is_new": is_new,
        # No recipe need be there for what is brought back.
        "kind": "completion" if from_record or not chat else "chat",
        "prompt": "" if from_record else probe.get("prompt") or "",
        # None is what the probe itself expects.
        "expect": (probe.get("expect") or None) if is_new else [],
        "max_tokens": probe.get("max_tokens", ANSWER_TOKENS) if is_new else LIVENESS_TOKENS,
        "tools": is_new and chat and tools,
    }


def failure_reason(name: str, result: Mapping) -> str:
    """Return why a task failed; empty on a Spark without a failure of its own."""
    return str(result.get("error") or result.get("msg") or "").removeprefix(f"{name}: ")


def failure_facts(
    name: str,
    result: Mapping,
    fallback: Mapping | None,
    rollback_text: str,
    slots: ByHost,
    changed: ByHost,
    verified_before: ByHost,
) -> dict[str, t.Any]:
    """Return why a run failed, whether it is known to have changed nothing, and the record to roll back to.

    The slots show whether the previous deployment ran on all Sparks: an interrupted run may have left it on some. A
    container that could not be created or started has exported nothing, and may have replaced the previous one. An
    unknown container without a record was created by an interrupted run.
    """
    served = not slots or any(slot and slot.get("state") == "running" for slot in slots.values())
    comes_back = fallback if served else None
    return {
        "reason": failure_reason(name, result),
        "can_retry": bool(changed)
        and all(each is False for each in changed.values())
        and False not in verified_before.values(),
        "fallback": comes_back,
        "rollback_text": rollback_text if comes_back is not None else "No server runs now.",
    }


def failure_message(name: str, reasons: ByHost, log: str, rollback_text: str, result: Mapping) -> str:
    """Return the message of a run that failed after its rollback."""
    kept = f"Its log is in {log}." if log else "It left no log."
    if result:
        why = failure_reason(name, result) or "it failed on another Spark."
        why = "the reason is the same." if why in reasons.values() else why
        rollback_text = f"The previous deployment could not be started again either: {why}"
    return " ".join([f"{name}:", *dict.fromkeys(str(why) for why in reasons.values() if why), kept, rollback_text])


def start_conditions(
    name: str,
    labels: Mapping,
    record: Mapping | None,
    addresses: t.Collection[str],
    missing: t.Collection[str],
    all_labels: ByHost,
) -> dict[str, t.Any]:
    """Return the conditions of a start.

    `has_api` is true on the head. A worker waits `worker_timeout` seconds for its head at `ssh_address`, which is empty
    on the head. `problem` fails before the container runs, `missing_workers` after it; both are empty without one. The
    labels of all Sparks show whether they have one deployment.
    """
    cluster = (record or {}).get("cluster") or {}
    rails = cluster.get("rails") or []
    has_api = str(labels.get(f"{names.LABEL}rank", "0")) == "0"
    nodes = nodes_of(cluster)
    lost = [each for each in missing if each in nodes]
    others = [label for each, label in all_labels.items() if each in nodes and label]
    return {
        "has_api": has_api,
        "ssh_address": rails[0]["address"] if rails and not has_api else "",
        "worker_timeout": PATIENCE_S,
        "problem": _missing_addresses(name, [rail for rail in rails if rail["address"] not in addresses])
        or _mixed_deployments(name, others),
        "missing_workers": f"{name}: the container runs and waits, because {join_words(lost)} could not be started "
        f"(see the error above). It serves as soon as {'that runs' if len(lost) == 1 else 'they run'}."
        if has_api and lost
        else "",
    }


def restart_endpoint(server: Mapping, published_ports: t.Collection[str]) -> dict[str, t.Any]:
    """Return where a stopped server will listen, which must be free.

    The port is 0 for a server that has it already, for a worker, and for published ports, whose user Docker names.
    """
    place = urlsplit(server.get("url") or "")
    is_worker = (server.get("cluster") or {}).get("role") == "worker"
    listens = server.get("state") in ("failed", "stopped", "dead") and not is_worker and not published_ports
    return {"port": (place.port or 0) if listens else 0, "address": place.hostname or "127.0.0.1"}


def _mixed_deployments(name: str, labels: t.Sequence[Mapping]) -> str:
    """Of Sparks of which one has kept what it was to serve, and another one has gone back."""
    names = describe_mixed(labels)
    if not names:
        return ""
    return (
        f"{name}: the Sparks have different deployments ({names}), probably because an earlier run was interrupted. "
        "Nothing was changed. Run serve.yml with the recipe that you want."
    )


def _missing_addresses(name: str, rails: t.Sequence[Mapping]) -> str:
    """Report a Spark that lost the addresses of its container, since its peers would wait without end."""
    if not rails:
        return ""
    return (
        f"{name} no longer has {' and '.join(rail['address'] for rail in rails)} on "
        f"{' and '.join(rail['interface'] for rail in rails)}, so the other Sparks cannot reach it. The containers "
        "run and wait. Check the cable and run 'sudo netplan apply' there, or run the deployment's playbook again."
    )
