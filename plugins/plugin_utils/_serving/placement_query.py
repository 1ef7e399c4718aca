# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The query `placement`: what prevents a container from being created or started on a Spark, and where it listens."""

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleActionFail

from .._engines.engine import OPENAI_ROUTES
from .._engines.registry import ENGINES, engine_of
from .._query import host_vars
from .._query.query import EMPTY, Form, Forms, Mapping, Result, Run, refusal_result
from .._report.access import reach_of
from . import disk_space, docker_access, firewall, lifecycle, open_webui, placement, refused_fields
from .served_query import alternative


def check_docker(run: Run, docker: Mapping, need_gpu: bool = True, add_to_group: bool = True) -> Result:
    if os.environ.get("SUDO_USER"):
        raise AnsibleActionFail(docker_access.UNDER_SUDO)
    return {
        **docker_access.access_plan(docker, add_to_group, run.is_check),
        **run.refusal_result(docker_access.refusal(docker, need_gpu)),
    }


def endpoint(
    run: Run,
    host: str,
    port: t.Any,
    image: str,
    cache_directory: str,
    expose: str,
    allow_unauthenticated: bool,
    network: str = "host",
    recipe: Mapping = EMPTY,
    published_ports: t.Sequence[str] | None = None,
) -> Result:
    """Return where the API of a new deployment is."""
    result = lifecycle.api_endpoint(run.host, run.hosts, host, port)
    return {
        **result,
        "docker_query": lifecycle.docker_query(result, network, image, published_ports, cache_directory),
        "alternative": alternative(run, recipe, image),
        **run.refusal_result(
            lifecycle.exposure_problem(engine_of(recipe), host, expose, allow_unauthenticated, network, run.hosts)
        ),
    }


def previous_endpoint(run: Run, deployment: Mapping, cache_directory: str) -> Result:
    """Return what to look at in Docker where a recorded deployment listened."""
    return {"docker_query": lifecycle.former_query(run.host, run.hosts, deployment, cache_directory)}


def restart_endpoint(_run: Run, server: Mapping, published_ports: t.Sequence[str] = ()) -> Result:
    """Return where a server that does not run will listen."""
    return lifecycle.restart_endpoint(server, published_ports)


def api_routes(_run: Run, engine: str = "", known_issues: t.Sequence[Mapping] = (), record: Mapping = EMPTY) -> Result:
    """Return the routes that the API proxy forwards, and the fields that it refuses.

    The routes are those of an engine, or of every engine if it is unknown. The fields follow from the known issues of
    the planned deployment, or from the record of another one.
    """
    return {
        "routes": list(ENGINES[engine].routes if engine in ENGINES else OPENAI_ROUTES),
        "refused": refused_fields.refusal(refused_fields.of_record(record) if record else known_issues),
    }


def check_container(
    run: Run,
    name: str,
    image: str,
    look: Mapping,
    inputs: Mapping | None = None,
    registry: Mapping = EMPTY,
    alternative: str = "",
    unpack_factor: float = 0.0,
    gpus: t.Sequence[Mapping] = (),
    listens: t.Sequence[Mapping] = (),
    labels: Mapping = EMPTY,
    publish: placement.Publish | None = None,
    entrypoint: Mapping = EMPTY,
) -> Result:
    """Return what a pull takes, whether containers keep the entrypoint of an engine's image, and all problems."""
    result = placement.Placement(
        name=name,
        image=image,
        look=look,
        registry=registry,
        unpack_factor=unpack_factor,
        inputs=inputs or placement.SERVER_INPUTS,
        listens=listens,
        publish=publish,
        labels=labels,
        alternative=alternative,
        gpus=gpus,
    )
    # Without a recipe there is none.
    engine = ENGINES.get(entrypoint.get("engine", ""))
    return {
        "image_bytes": placement.image_bytes(result),
        "keep_entrypoint": engine is None or engine.keeps_entrypoint(entrypoint["image"]),
        **refusal_result("\n".join(f"{run.host}: {problem}" for problem in placement.problems(result))),
    }


def check_disk_space(
    run: Run,
    models: Mapping,
    cluster_facts: Mapping | None = None,
    image_bytes: int = 0,
    compressed_image_bytes: int = 0,
    reserve_bytes: int = 0,
) -> Result:
    """Refuse what does not fit; with looks at all Sparks, on one that copies from another."""
    if cluster_facts is None:
        return refusal_result(disk_space.unusable_models(run.host, models, image_bytes, reserve_bytes))
    return refusal_result(
        "\n".join(disk_space.needed(cluster_facts, run.host, models, compressed_image_bytes, reserve_bytes))
    )


def firewall_rules(
    _run: Run, network: str, published_ports: t.Sequence[str] = (), previous_ports: t.Sequence[str] = ()
) -> Result:
    try:
        return {"rules": firewall.rules(network, published_ports, previous_ports)}
    except ValueError as error:
        raise AnsibleActionFail(str(error)) from None


def plan_open_webui(
    run: Run, name: str, address: str, port: int, endpoint: str, environment: Mapping = EMPTY
) -> Result:
    reach = reach_of(run.action, run.variables)
    return open_webui.plan(run.host, name, address, port, endpoint, reach, environment)


FORMS: Forms = {
    "docker_access": Form(check_docker, "dgx_spark.speculative.spark_info with gather: [docker]"),
    "endpoint": Form(endpoint),
    "previous_endpoint": Form(previous_endpoint),
    "restart_endpoint": Form(restart_endpoint),
    "api_routes": Form(api_routes),
    "container": Form(check_container),
    "disk_space": Form(check_disk_space, f"{host_vars.CLUSTER_SOURCE}, and {host_vars.MODELS_SOURCE}"),
    "firewall": Form(firewall_rules),
    "open_webui": Form(plan_open_webui),
}
