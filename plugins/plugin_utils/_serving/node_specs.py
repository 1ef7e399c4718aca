# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""Build the node specs of a deployment, and from them the containers and their files."""

from __future__ import annotations

import typing as t
from pathlib import Path, PurePosixPath

from .._engines.registry import ENGINES, engine_of
from . import container_spec, containers, deployment, serving
from .lifecycle import url_of

Mapping = t.Mapping[str, t.Any]
# Puts what the script of an engine has to know into its template.
Render = t.Callable[[str, Mapping], str]


def programs(directory: Path) -> dict[str, str]:
    """Return the programs in the container, by name."""
    result = [directory / "entrypoint.py", *sorted((directory / "server").rglob("*.py"))]
    return {path.relative_to(directory).as_posix(): path.read_text(encoding="utf-8") for path in result}


def node_spec(args: Mapping, plan: Mapping, recipe: Mapping) -> dict[str, t.Any]:
    """Return the node spec: `node`, programs and engine options, its own record, and whether that was verified.

    The options name the models as the container finds them.
    """
    own, directory, engine = args["record"], args["programs"], engine_of(recipe)
    given = {key: value for key, value in args.items() if key not in ("record", "is_verified", "programs")}
    values = plan["served"]
    bridged = given["settings"].get("network") == "bridge"
    settings = {key: value for key, value in given["settings"].items() if bridged or key != "published_ports"}
    whole: dict[str, t.Any] = {
        **given,
        "settings": settings,
        "engine": engine.name,
        "reference": values["image"],
        "target": values["target"],
        "draft": values["draft"],
        "url": url_of(given["host"], given["port"]),
        "bridged": bridged,
        "checked": plan["checked"],
        "memory_guard": plan["memory_guard"],
        "takes": plan["takes"],
        "share": plan["share"],
        "subdirectories": ["state", "trial", *(["tiktoken_encodings"] if recipe.get("tiktoken_encodings") else [])],
        "generation": "",
        "recorded": None,
    }
    node = containers.Node(**whole)
    # Those that are not known are named, before anything is written.
    draft = containers.model_paths(node.models, values)["draft"]
    config = serving.in_container(engine, plan["config"], plan["engine_options"], values["draft"], draft)
    config["warnings"] = [*serving.notes(recipe, values), *config["warnings"]]
    return {
        "node": dict(vars(node)),
        "plan": plan,
        "config": config,
        "files": programs(Path(directory)),
        "record": own or {},
        "is_verified": args["is_verified"],
    }


def completed_specs(specs: t.Sequence[Mapping], render: Render) -> list[tuple[dict[str, t.Any], dict[str, str]]]:
    """Complete each node spec with what all nodes together determine.

    That is its generation, its record if that is for the same, and its files but for the options. The script is the
    head's alone if it starts the ranks of the workers through SSH.
    """
    nodes = containers.read([each["node"] for each in specs])
    serve = render(nodes[0].engine, containers.script(nodes, nodes[0]))
    result = []
    for rank, (node, each) in enumerate(zip(nodes, specs)):
        starts = rank == 0 or not ENGINES[node.engine].ranks_by_ssh
        files = {**each["files"], **({"serve.sh": serve} if starts else {})}
        texts = deployment.texts(files, each["config"])
        recorded = container_spec.container(
            each["record"], texts, containers.script(nodes, node), node.models, node.host
        )
        generation = containers.generation(texts, node.subdirectories)
        result.append(({**each["node"], "generation": generation, "recorded": recorded}, files))
    return result


def node_plan(host: str, nodes: t.Mapping[str, Mapping], recipe: Mapping, render: Render) -> Mapping:
    """Return the node plan: container, files, deployment, and as `run_plan` how it is started."""
    result = completed_specs(list(nodes.values()), render)
    container = containers.plan([node for node, _files in result])[host]
    (files,) = (files for node, files in result if node["name"] == host)
    own = nodes[host]
    plan = own["plan"]
    whole = deployment.build(container, recipe, plan["served"], plan, own["config"], files, own["record"])
    run = deployment.run_plan(
        vars(whole), container["start_order"], own["node"]["slot"], own["record"], own["is_verified"]
    )
    state_directory = str(PurePosixPath(own["node"]["directory"]).parent)
    is_verified = run["verified_before"]
    reservations = [] if is_verified else deployment.reserved_space(vars(whole), own["record"], state_directory)
    return {
        **container,
        **deployment.mounted_generation(whole.container, whole.files),
        "deployment": dict(vars(whole)),
        "run_plan": {**run, "reservations": reservations},
    }
