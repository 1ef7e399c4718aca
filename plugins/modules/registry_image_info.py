#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_image_info
short_description: Ask a registry about an image without pulling it
version_added: 0.1.0
description:
  - Tells whether an image is in its registry, what its digests are and how much there is to fetch.
  - Queries the registry anonymously, with an anonymous token if the registry needs one. Downloads no layer.
  - A registry on the same machine (C(localhost) or an address in 127.0.0.0/8) is asked without TLS, as Docker does.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  image:
    description:
      - The reference of the image. Without a registry it is looked for on Docker Hub, without a tag V(latest) is meant.
    type: str
    required: true
  platform:
    description:
      - The platform to look at, such as V(linux/arm64). By default the one of the host.
    type: str
  validate_certs:
    description:
      - Whether the registry's certificate must be valid.
    type: bool
    default: true
author:
  - dgx_spark.speculative contributors (!UNKNOWN)
"""

EXAMPLES = r"""
---
- name: Ask for the image
  dgx_spark.speculative.registry_image_info:
    image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
  register: registry

- name: Refuse an image that does not exist
  ansible.builtin.fail:
    msg: "There is no such image. Tags like this one are {{ registry.tags | join(', ') }}."
  when: not registry.exists
"""

RETURN = r"""
exists:
  description: Whether the registry has the image.
  returned: success
  type: bool
digest:
  description: The digest to which the tag points. Null when the image does not exist.
  returned: success
  type: str
  sample: sha256:0123abcd
platform:
  description: The platform that was looked at.
  returned: success
  type: str
  sample: linux/arm64
platforms:
  description: The platforms that the image is made for. Empty when it does not say.
  returned: success
  type: list
  elements: str
  sample:
    - linux/amd64
    - linux/arm64
platform_digest:
  description: The digest of the platform's manifest. Null when the image does not exist for it.
  returned: success
  type: str
  sample: sha256:4567ef01
config_digest:
  description: The digest of the image's configuration, which is the ID of the image in Docker's classic image store.
  returned: success
  type: str
  sample: sha256:89ab4567
compressed_bytes:
  description: The size of all layers as they are fetched. Null when it is not known.
  returned: success
  type: int
  sample: 17500000000
layers:
  description: The layers of the platform.
  returned: success
  type: list
  elements: dict
  sample:
    - digest: sha256:abcd0123
      size: 30000000
tags:
  description: When the image does not exist, at most five tags that are most like the one that was asked for.
  returned: success
  type: list
  elements: str
  sample:
    - 1.3.0rc12
    - 1.3.0rc11
"""

import functools
import typing as t

from ansible.module_utils.basic import (
    AnsibleModule,
)
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.image_store import own_platform
from ansible_collections.dgx_spark.speculative.plugins.module_utils._docker.registry import (
    Registry,
    RegistryError,
    describe,
    fetch,
    parse_reference,
)


class RegistryImageInfo:
    """One question to a registry."""

    def __init__(self, params: dict[str, t.Any]) -> None:
        self._reference = parse_reference(params["image"])
        self._platform: str = params["platform"] or own_platform()
        fetch_page = functools.partial(fetch, validate_certs=params["validate_certs"])
        self._registry = Registry(self._reference.base_url, self._reference.repository, fetch_page)

    def act(self) -> dict[str, t.Any]:
        return {"changed": False, **describe(self._registry, self._reference, self._platform)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "platform": {"type": "str"},
            "validate_certs": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**RegistryImageInfo(module.params).act())
    except RegistryError as e:
        module.fail_json(msg=str(e))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        module.fail_json(
            msg=f"What answers for {module.params['image']} does not speak as a registry does ({e!r}); "
            "check the image's name and the way to its registry.",
        )


if __name__ == "__main__":
    main()
