# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this plugin util is internal to the collection; its interface may change at any time.

"""The engine option sections that are the same in every release family; `schema` explains the vocabulary.

A section moves from here into the families' own modules as soon as two of them differ.
"""

from __future__ import annotations

from ansible_collections.dgx_spark.speculative.plugins.plugin_utils._trtllm.schema import (
    BOOL,
    COUNT,
    FRACTION,
    INT,
    INTERNAL,
    OBJECT,
    OPTIONAL_INT,
    OPTIONAL_STR,
    SIZE,
    STR,
    choice,
    list_of,
    map_of,
    never,
    number,
    optional,
)

SHARED_SECTIONS = {
    "CudaGraphConfig": {
        "fields": {
            "max_batch_size": COUNT,
            "batch_sizes": optional(list_of(SIZE)),
            "enable_padding": BOOL,
        },
        "renamed": {"padding_enabled": "enable_padding"},
    },
    "MoeLoadBalancerConfig": {
        "fields": {
            "num_slots": OPTIONAL_INT,
            "initial_global_assignments": optional(map_of(list_of(INT), keys="int")),
            "layer_updates_per_iter": INT,
        },
    },
    "PeftCacheConfig": {
        "fields": {
            "num_host_module_layer": INT,
            "num_device_module_layer": INT,
            "optimal_adapter_size": INT,
            "max_adapter_size": INT,
            "num_put_workers": INT,
            "num_ensure_workers": INT,
            "num_copy_streams": INT,
            "max_pages_per_block_host": INT,
            "max_pages_per_block_device": INT,
            "device_cache_percent": FRACTION,
            "host_cache_size": INT,
            "lora_prefetch_dir": OPTIONAL_STR,
        },
    },
    "TorchCompileConfig": {
        "fields": {
            "enable_fullgraph": BOOL,
            "enable_inductor": BOOL,
            "enable_piecewise_cuda_graph": BOOL,
            "capture_num_tokens": optional(list_of(SIZE)),
            "enable_userbuffers": BOOL,
            "max_num_streams": SIZE,
        },
    },
    "KvCacheConnectorConfig": {
        "fields": {
            "connector_module": {**STR, "required": True},
            "connector_scheduler_class": {**STR, "required": True},
            "connector_worker_class": {**STR, "required": True},
        },
    },
    "Nvfp4GemmConfig": {
        "fields": {
            "allowed_backends": list_of(choice("cutlass", "cublaslt", "cutedsl", "cuda_core"), min_items=1),
        },
    },
    "RayPlacementConfig": {
        "fields": {
            "defer_workers_init": BOOL,
            "placement_groups": never(OBJECT),
            "placement_bundle_indices": never("it goes with placement_groups, which a file can not hold"),
            "per_worker_gpu_share": optional(number(above=0, max=1)),
        },
    },
    "DraftTargetDecodingConfig": {"extends": "DecodingBaseConfig", "fields": {}},
    "AutoDecodingConfig": {"extends": "DecodingBaseConfig", "fields": {}},
    "SaveHiddenStatesDecodingConfig": {
        "extends": "DecodingBaseConfig",
        "fields": {
            "output_directory": {**STR, "required": True},
            "file_prefix": STR,
            "write_interval": INT,
            "eagle3_layers_to_capture": optional(list_of(INT)),
            "max_total_draft_tokens": never(INTERNAL),
            "eagle_choices": never(INTERNAL),
        },
    },
    "LookaheadDecodingConfig": {
        "extends": "DecodingBaseConfig",
        "fields": {"max_window_size": SIZE, "max_ngram_size": SIZE, "max_verification_set_size": SIZE},
    },
    "MedusaDecodingConfig": {
        "extends": "DecodingBaseConfig",
        "fields": {"medusa_choices": optional(list_of(list_of(INT))), "num_medusa_heads": OPTIONAL_INT},
    },
    "UserProvidedDecodingConfig": {
        "extends": "DecodingBaseConfig",
        "fields": {"drafter": never(OBJECT), "resource_manager": never(OBJECT)},
    },
}
