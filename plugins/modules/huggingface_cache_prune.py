#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: huggingface_cache_prune
short_description: Remove named or unused models from a Hugging Face cache (internal)
version_added: 0.1.0
description:
  - This module is internal to the collection. Its interface may change at any time.
  - Without O(models), removes unused models, unused files and incomplete downloads.
  - Never removes a model that is not named and has no receipt.
options:
  cache_directory: {type: path, default: ~/.cache/huggingface/hub, description: "The directory of the cached models."}
  receipts_directory: {type: path, description: "The directory of the receipts, C(models) in O(state_directory)."}
  state_directory:
    {type: path, default: ~/.local/share/dgx-spark-speculative, description: "The directory of the deployments."}
  labels: {type: dict, description: "The labels of the serving container, or an empty dictionary."}
  models: {type: raw, description: "The names of the models to remove, or V(all)."}
  also: {type: list, elements: str, default: [], description: "Models without a receipt that O(models) may name."}
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
"""

RETURN = r"""
"""

import dataclasses
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._deployment.records import (
    NOT_DEPLOYMENTS,
    PREVIOUS,
    current,
    deployment_directory,
    models_in_use,
    models_of,
    read_record,
)
from ..module_utils._models.cache import Prune, PruneError, Removal, cached_models, removals


def unreadable_records(state: Path, labels: t.Mapping[str, str]) -> list[Path]:
    """Return the records that cannot be read or name no models. Without their models, everything would seem unused."""
    directory = deployment_directory(state, labels)
    if directory:
        paths = [directory / "record.json"]
    else:
        # Without a container, a user may start any deployment again.
        names = sorted({entry.name for entry in state.iterdir()}.difference(NOT_DEPLOYMENTS)) if state.is_dir() else []
        paths = [path for name in names if is_there(path := state / name / "record.json")]
    paths += [before] if is_there(before := state / PREVIOUS) else []
    return [path for path in paths if not models_of(read_record(path))]


def is_there(path: Path) -> bool:
    """Return whether a file exists, also one that may not be looked at."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        pass
    return True


def named(prune: Prune, models: t.Any, also: t.Iterable[str]) -> list[Removal]:
    """Return the models that the user names. Raises PruneError for those that are not this collection's."""
    known = list(dict.fromkeys([*prune.known(), *also]))
    wanted = known if models == "all" else [models] if isinstance(models, str) else [str(name) for name in models]
    strange = [name for name in wanted if name not in known]
    if strange:
        raise PruneError(
            f"{', '.join(strange)} cannot be removed, since it was not fetched by this collection. Those that were: "
            f"{', '.join(known) or 'none'}."
        )
    return [prune.named(name) for name in wanted]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cache_directory": {"type": "path", "default": "~/.cache/huggingface/hub"},
            "receipts_directory": {"type": "path"},
            "state_directory": {"type": "path", "default": "~/.local/share/dgx-spark-speculative"},
            "labels": {"type": "dict"},
            "models": {"type": "raw"},
            "also": {"type": "list", "elements": "str", "default": []},
        },
        mutually_exclusive=[("labels", "models")],
        required_one_of=[("labels", "models")],
        supports_check_mode=True,
    )
    params = module.params
    cache, state, labels = Path(params["cache_directory"]), Path(params["state_directory"]), params["labels"]
    receipts = Path(params["receipts_directory"] or state / "models")
    prune = Prune(cache, receipts)
    if params["models"] is not None:
        remove(module, prune, lambda: named(prune, params["models"], params["also"]))
    deployment = deployment_directory(state, labels)
    if deployment and current(state, labels) is None:
        module.fail_json(
            msg=f"The models in use are unknown, because the deployment {deployment.name} in the container was not "
            "verified with its present configuration. Deploy it again or remove it, then run again."
        )
    unreadable = unreadable_records(state, labels)
    if unreadable:
        module.fail_json(
            msg=f"The models in use are unknown, because {' and '.join(map(str, unreadable))} cannot be read or names "
            "no model. Deploy again, or remove the file if you do not need its deployment, then run again."
        )
    remove(module, prune, lambda: removals(cached_models(cache, receipts, models_in_use(state, labels))))


def remove(module: AnsibleModule, prune: Prune, wanted: t.Callable[[], list[Removal]]) -> t.NoReturn:
    """Remove the planned paths that are not in use, and end the module."""
    try:
        removed = [removal for removal in wanted() if prune.is_free(removal)]
        changed = any(removal.kind != "named" or prune.holds(removal.id) for removal in removed)
        if not module.check_mode:
            for removal in removed:
                prune.remove(removal)
    except PruneError as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(
            msg=f"The Hugging Face cache {prune.cache} cannot be read ({error.filename}: {error.strerror}): give it "
            "back to the login user with 'sudo chown -R', then run again"
        )
    lines = [removal.line() for removal in removed]
    module.exit_json(
        changed=changed,
        removed=[dataclasses.asdict(removal) for removal in removed],
        bytes_freed=sum(removal.bytes for removal in removed),
        lines=lines,
        diff={"before": "".join(f"{line}\n" for line in lines), "after": ""},
    )


if __name__ == "__main__":
    main()
