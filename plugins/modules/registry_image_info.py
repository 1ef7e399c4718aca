#!/usr/bin/python
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_image_info
short_description: Look up an image in its registry without pulling it
version_added: 0.1.0
description:
  - Determines whether an image exists in its registry, its digests and the size of the download.
  - Queries the registry anonymously, with an anonymous token if the registry needs one. Downloads no layer.
  - A registry on the same machine (C(localhost) or an address in 127.0.0.0/8) is asked without TLS, as Docker does.
extends_documentation_fragment:
  - dgx_spark.speculative._attributes
  - dgx_spark.speculative._attributes.info_module
options:
  image:
    description:
      - Reference of the image. Without a registry, it is on Docker Hub. Without a tag, it is V(latest).
    type: str
    required: true
  platform:
    description:
      - Platform of the image, such as V(linux/arm64). The default is that of the host.
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
- name: Look up the image
  dgx_spark.speculative.registry_image_info:
    image: nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12
  register: registry

- name: Check that the image exists
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
  description: Digest to which the tag points. Null if the image does not exist.
  returned: success
  type: str
  sample: sha256:0123abcd
platform:
  description: Platform that was looked up.
  returned: success
  type: str
  sample: linux/arm64
platforms:
  description: Platforms for which the image is available. Empty if the registry does not say.
  returned: success
  type: list
  elements: str
  sample:
    - linux/amd64
    - linux/arm64
platform_digest:
  description: Digest of the platform's manifest. Null if the image does not exist for it.
  returned: success
  type: str
  sample: sha256:4567ef01
config_digest:
  description: Digest of the image's configuration, which is the ID of the image in Docker's classic image store.
  returned: success
  type: str
  sample: sha256:89ab4567
cuda:
  description: CUDA that the image needs of the GPU driver. Null if it brings its own libraries, or says nothing.
  returned: success
  type: str
  sample: 13.0.2
compressed_bytes:
  description: Size of all compressed layers, which is the size of the download in bytes. Null if it is unknown.
  returned: success
  type: int
  sample: 17500000000
layers:
  description: Layers of the platform, each with its compressed size in bytes.
  returned: success
  type: list
  elements: dict
  sample:
    - digest: sha256:abcd0123
      size: 30000000
tags:
  description: If the image does not exist, at most five tags of it that are most like the requested one.
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

from ..module_utils._docker.image_store import own_platform
from ..module_utils._docker.registry import Registry, RegistryError, describe, fetch, parse_reference


def look(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the facts that the registry has about the image."""
    reference = parse_reference(params["image"])
    fetch_page = functools.partial(fetch, validate_certs=params["validate_certs"])
    registry = Registry(reference.base_url, reference.repository, fetch_page)
    return describe(registry, reference, params["platform"] or own_platform())


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
        module.exit_json(changed=False, **look(module.params))
    except RegistryError as e:
        module.fail_json(msg=str(e))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        module.fail_json(
            msg=f"The server of {module.params['image']} does not answer like a registry ({e!r}). Check the image's "
            "name and the network.",
        )


if __name__ == "__main__":
    main()
