# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""Say why the Hub refuses a request, and what to do. Jobs have this file, too."""

from __future__ import annotations

import dataclasses


class HubError(Exception):
    """The Hub cannot provide a repository. The text is one sentence with the fix."""


class TokenNeededError(HubError):
    """The Hub refused an anonymous request."""


class GeneralHubError(HubError):
    """An error that applies to every repository, so the next query is pointless."""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A refused request: the status of the answer, its reason and the Hub's header X-Error-Code."""

    status: int
    reason: str = ""
    code: str = ""


def refusal(
    endpoint: str, repository: str, revision: str, said: Refusal, has_token: bool, path: str = "a file"
) -> HubError:
    """Return the error for a refused request of a repository, or of a file of it."""
    page = f"{endpoint}/{repository}"
    tokens = f"{endpoint}/settings/tokens"
    if said.code == "EntryNotFound":
        return HubError(
            f"The Hub's model {repository} lacks {path} of its revision '{revision}': compare it with "
            f"{page}/tree/{revision}, or give another revision"
        )
    if said.code == "RevisionNotFound":
        return HubError(
            f"The Hub's model {repository} has no revision '{revision}': "
            f"give a branch, a tag or a full commit listed on {page}/commits/main"
        )
    if has_token:
        if said.code == "GatedRepo" or said.status == 403:
            return HubError(
                f"The token is valid but its owner may not download {repository}: accept the licence on {page} as "
                "that user (and let a fine-grained token read gated repositories), then run again"
            )
        if said.status == 401 and said.code != "RepoNotFound":
            return GeneralHubError(
                f"The Hub {endpoint} refuses the token as invalid (asked for {repository}): "
                f"it is mistyped, expired or revoked, so make a new read token on {tokens} and give that one"
            )
    elif said.code == "GatedRepo":
        return TokenNeededError(
            f"The model {repository} is gated and no token was found: accept its licence on {page}, make a read "
            f"token on {tokens} and give it as huggingface_cache_token or in the environment variable HF_TOKEN"
        )
    elif said.status in (401, 403):
        return TokenNeededError(
            f"The Hub has no public model {repository}: check the name on {page}, or, if it is private, give a "
            "token that may read it as huggingface_cache_token or in the environment variable HF_TOKEN"
        )
    if said.status in (401, 404):
        return HubError(
            f"The Hub has no model {repository} (or it is private and the token may not see it): "
            f"check the name on {page}"
        )
    return HubError(
        f"The Hub {endpoint} refused a request for {path} of {repository} with {said.status} {said.reason}: look at "
        f"{page}, then run again"
    )
