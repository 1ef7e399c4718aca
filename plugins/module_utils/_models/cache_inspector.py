# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Inspect a Hugging Face cache: its directory, its models, and files of other users."""

from __future__ import annotations

import dataclasses
import os
import pwd
import typing as t
from pathlib import Path

from .._deployment.records import deployments, models_of, previous
from .cache import cached_models
from .cache_facts import (
    CacheFacts,
    EnvironmentValueError,
    environment_directory,
    foreign_paths,
    is_verified,
    login_environment,
    statement,
    token_files,
)
from .disk import ModelSpec


class CacheInspector:
    """A module's parameters, and the look that they ask for."""

    def __init__(self, params: t.Mapping[str, t.Any]) -> None:
        self.params = params
        self.user = pwd.getpwuid(os.geteuid())
        self.state = Path(params["state_directory"])
        self.receipts = Path(params["receipts_directory"])
        self.wanted = [ModelSpec.of(item) for item in params["repositories"]]

    def in_use(self) -> set[str]:
        """Return the models of every deployment that ever served."""
        records = (*deployments(self.state).values(), previous(self.state))
        return {name for record in records for name in models_of(record)}

    def directories(self, environment: t.Mapping[str, str | None]) -> tuple[Path, tuple[str, str] | None]:
        """Return the cache to look at, and where the environment leads if that is elsewhere."""
        configured = Path(self.params["cache_directory"])
        try:
            named = environment_directory(environment, self.user.pw_dir)
        except EnvironmentValueError:
            if self.params["from_environment"]:
                raise
            named = None
        if named is None or os.path.realpath(named[0]) == os.path.realpath(configured):
            return configured, None
        return (named[0], None) if self.params["from_environment"] else (configured, (str(named[0]), named[1]))

    def look(self) -> dict[str, t.Any]:
        environment = login_environment(self.user.pw_uid)
        cache, elsewhere = self.directories(environment)
        trusted = [] if self.params["verify"] else self.wanted
        verified = frozenset(item.id for item in trusted if is_verified(item, cache, self.receipts))
        unverified = [item.id for item in self.wanted if item.id not in verified]
        result = CacheFacts(
            wanted=tuple(self.wanted),
            verified=verified,
            models=tuple(cached_models(cache, self.receipts, self.in_use(), self.wanted)),
            foreign=tuple(foreign_paths(cache, unverified, self.user.pw_uid) if unverified else ()),
            neighbours=tuple(token_files(cache)),
            directory=str(cache),
            elsewhere=elsewhere,
            user=self.user.pw_name,
            take_over=self.params["take_over"],
        )
        return {
            "directory": str(cache),
            "login_environment": environment,
            "foreign": [
                {**dataclasses.asdict(item), "command": item.command(self.user.pw_name)} for item in result.foreign
            ],
            "token_files": list(result.neighbours),
            "models": [dataclasses.asdict(model) for model in result.models],
            "lines": statement(result),
        }
