# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the engine options of the family 1.2, from 1.2.0rc1 to 1.2.0rc6: names, types and errors.

They are written from the published behaviour of that family, independently, as those of 1.3. Additions after 1.2.0rc1
are under `if not EARLY`.
"""

from __future__ import annotations

import typing as t

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from .options import (
    CommonAttentionDpConfig,
    CommonCudaGraphConfig,
    CommonKvCacheConfig,
    CommonLlmArgs,
    CommonMoeConfig,
    DeepSeekSparseAttentionConfig,
    Fraction,
    Nvfp4GemmConfig,
    RocketSparseAttentionConfig,
    Strict,
)
from .release import EARLY

Path = str


class DecodingBaseConfig(Strict):
    """Speculation as 1.2 parses it: by a table of names, which may differ from the names of the classes."""

    max_draft_len: int | None = None
    max_total_draft_tokens: int | None = None
    speculative_model_dir: Path | None = None
    max_concurrency: int | None = None
    load_format: str | None = None
    acceptance_window: NonNegativeInt | None = None
    acceptance_length_threshold: NonNegativeFloat | None = None
    if not EARLY:
        draft_len_schedule: dict[int, int] | None = None
        allow_advanced_sampling: bool = False

    decoding_type: t.ClassVar[str] = ""
    kind: t.ClassVar[str] = ""
    pytorch: t.ClassVar[bool] = True

    @classmethod
    def from_dict(cls, data: dict[str, t.Any]) -> DecodingBaseConfig:
        """Parse the section of the options file. `decoding_type` chooses the class and is removed."""
        values = dict(data)
        name = values.pop("decoding_type", None)
        if name not in _BY_NAME:
            raise ValueError(f"Invalid decoding type: {name}")
        return _BY_NAME[name](**values)

    @property
    def draft(self) -> str | None:
        return self.speculative_model_dir

    @property
    def counted(self) -> bool:
        """Return whether the engine has statistics of the drafts. If one model does both, this family has none."""
        return True

    @property
    def one_model(self) -> bool:
        return bool(getattr(self, "eagle3_one_model", False))

    @property
    def samples_freely(self) -> bool:
        return bool(getattr(self, "allow_advanced_sampling", False))

    def length_for(self, running: int) -> int:
        """Return the draft length for this number of running requests."""
        length = self.max_draft_len or 0
        schedule: dict[int, int] | None = getattr(self, "draft_len_schedule", None)
        if schedule is not None:
            fitting = [batch for batch in schedule if batch >= running]
            return schedule[min(fitting)] if fitting else 0
        return 0 if self.max_concurrency is not None and running > self.max_concurrency else length

    def check(self) -> None:
        """Check a section before the engine uses it."""
        schedule: dict[int, int] | None = getattr(self, "draft_len_schedule", None)
        if schedule is None:
            return
        if any(key < 1 for key in schedule) or any(length < 0 for length in schedule.values()):
            raise ValueError("draft_len_schedule has batch sizes < 1 or draft lengths < 0")
        if 1 not in schedule:
            raise ValueError("draft_len_schedule must include batch size 1")
        if schedule[1] != self.max_draft_len:
            raise ValueError(f"draft_len_schedule[1] must equal max_draft_len ({self.max_draft_len})")
        if max(schedule.values()) > schedule[1]:
            raise ValueError("draft_len_schedule values must not exceed max_draft_len")


class EagleDecodingConfig(DecodingBaseConfig):
    eagle_choices: list[list[int]] | None = None
    greedy_sampling: bool | None = True
    posterior_threshold: float | None = None
    use_dynamic_tree: bool | None = False
    dynamic_tree_max_topK: int | None = None
    num_eagle_layers: int | None = None
    max_non_leaves_per_layer: int | None = None
    eagle3_one_model: bool | None = True
    eagle3_layers_to_capture: set[int] | None = None

    decoding_type = "Eagle"
    kind = "eagle3"

    def __init__(self, **values: t.Any) -> None:
        super().__init__()
        # As in the real class, types are not checked: a text passes as a number here.
        for name, value in values.items():
            setattr(self, name, value)
        if self.max_draft_len is None:
            raise ValueError("max_draft_len is required for Eagle")
        if self.eagle_choices is not None and self.use_dynamic_tree:
            raise ValueError("If eagle_choices is provided, use_dynamic_tree need to be False")
        if self.use_dynamic_tree and self.dynamic_tree_max_topK is None:
            raise ValueError("dynamic_tree_max_topK should be provided, which indicates the number of nodes")
        self.num_eagle_layers = self.max_draft_len

    @property
    def counted(self) -> bool:
        return not self.eagle3_one_model

    def check(self) -> None:
        super().check()
        if not t.cast("int", self.max_draft_len) > 0:
            raise ValueError("max_draft_len must be > 0 for Eagle")
        if self.speculative_model_dir is None:
            raise ValueError("Path to EAGLE3 weights must be specified.")


class DraftTargetDecodingConfig(DecodingBaseConfig):
    decoding_type = "Draft_Target"
    kind = "draft_target"

    def check(self) -> None:
        super().check()
        if not self.max_draft_len or self.max_draft_len < 0:
            raise ValueError("max_draft_len must be > 0 for DraftTarget")
        if self.speculative_model_dir is None:
            raise ValueError("Path to draft model must be specified.")


class NGramDecodingConfig(DecodingBaseConfig):
    max_matching_ngram_size: int = 0
    is_keep_all: bool = True
    is_use_oldest: bool = True
    is_public_pool: bool = True

    decoding_type = "NGram"
    kind = "ngram"

    def check(self) -> None:
        super().check()
        if not self.max_draft_len or self.max_draft_len < 0 or self.max_matching_ngram_size <= 0:
            raise ValueError("max_draft_len and max_matching_ngram_size must be > 0 for NGram")


class MTPDecodingConfig(DecodingBaseConfig):
    num_nextn_predict_layers: int = 1
    use_relaxed_acceptance_for_thinking: bool = False
    relaxed_topk: int = 1
    relaxed_delta: float = 0.0
    use_mtp_vanilla: bool = False
    mtp_eagle_one_model: bool = True
    num_nextn_predict_layers_from_model_config: int = 1
    BEGIN_THINKING_PHASE_TOKEN: int = 128798
    END_THINKING_PHASE_TOKEN: int = 128799

    decoding_type = "MTP"


class SaveHiddenStatesDecodingConfig(DecodingBaseConfig):
    output_directory: str
    write_interval: int = 20
    file_prefix: str = "data"
    eagle3_layers_to_capture: set[int] | None = None
    max_total_draft_tokens: int | None = 1
    eagle_choices: list[list[int]] | None = None

    decoding_type = "SaveState"


class UserProvidedDecodingConfig(DecodingBaseConfig):
    drafter: t.Any
    resource_manager: t.Any = None

    decoding_type = "User_Provided"


class LookaheadDecodingConfig(DecodingBaseConfig):
    max_window_size: PositiveInt = 4
    max_ngram_size: PositiveInt = 3
    max_verification_set_size: PositiveInt = 4

    decoding_type = "Lookahead"
    pytorch = False


class MedusaDecodingConfig(DecodingBaseConfig):
    medusa_choices: list[list[int]] | None = None
    num_medusa_heads: int | None = None

    decoding_type = "Medusa"
    pytorch = False


class AutoDecodingConfig(DecodingBaseConfig):
    decoding_type = "AUTO"


_BY_NAME: dict[t.Any, type[DecodingBaseConfig]] = {
    "MTP": MTPDecodingConfig,
    "Medusa": MedusaDecodingConfig,
    "Eagle": EagleDecodingConfig,
    "Lookahead": LookaheadDecodingConfig,
    "NGram": NGramDecodingConfig,
    "DraftTarget": DraftTargetDecodingConfig,
    "SaveState": SaveHiddenStatesDecodingConfig,
    "UserProvided": UserProvidedDecodingConfig,
    "AUTO": AutoDecodingConfig,
}


class KvCacheConfig(CommonKvCacheConfig):
    onboard_blocks: bool = True
    if not EARLY:
        use_kv_cache_manager_v2: bool = False
        max_util_for_resume: Fraction = 0.95


class CudaGraphConfig(CommonCudaGraphConfig):
    @model_validator(mode="after")
    def _sizes(self) -> CudaGraphConfig:
        generated = graph_sizes(self.max_batch_size or 128, self.enable_padding)
        if self.batch_sizes and self.max_batch_size and sorted(self.batch_sizes) != generated:
            raise ValueError(
                "Please don't set both cuda_graph_config.batch_sizes and cuda_graph_config.max_batch_size.\n"
                f"cuda_graph_config.batch_sizes: {self.batch_sizes}, "
                f"cuda_graph_config.max_batch_size: {self.max_batch_size}"
            )
        return self


def graph_sizes(largest: int, padding: bool) -> list[int]:
    """Return the batch sizes of captured graphs if only the largest is set."""
    sizes = [1, 2, 4, *(8 * number for number in range(1, 17))] if padding else [*range(1, 32), 32, 64, 128]
    while sizes[-1] < largest:
        sizes.append(2 * sizes[-1])
    return sorted({*(size for size in sizes if size <= largest), largest})


class MoeConfig(CommonMoeConfig):
    backend: t.Literal["CUTLASS", "CUTEDSL", "WIDEEP", "TRTLLM", "DEEPGEMM", "VANILLA", "TRITON"] = "CUTLASS"


class DynamicBatchConfig(Strict):
    enable_batch_size_tuning: bool
    enable_max_num_tokens_tuning: bool
    dynamic_batch_moving_average_window: int


class SchedulerConfig(Strict):
    capacity_scheduler_policy: t.Literal["MAX_UTILIZATION", "GUARANTEED_NO_EVICT", "STATIC_BATCH"] = (
        "GUARANTEED_NO_EVICT"
    )
    context_chunking_policy: t.Literal["FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"] | None = None
    dynamic_batch_config: DynamicBatchConfig | None = None


class CacheTransceiverConfig(Strict):
    backend: t.Literal["DEFAULT", "UCX", "NIXL", "MPI"] | None = None
    max_tokens_in_buffer: int | None = None
    kv_transfer_timeout_ms: PositiveInt | None = None


SparseAttentionConfig = t.Annotated[
    t.Union[RocketSparseAttentionConfig, DeepSeekSparseAttentionConfig], Field(discriminator="algorithm")
]


class TorchLlmArgs(CommonLlmArgs):
    """All top-level options: those of every backend, then those of the pytorch backend."""

    revision: str | None = None
    cp_config: dict[str, t.Any] | None = None
    fail_fast_on_attention_window_too_large: bool = False
    kv_cache_config: KvCacheConfig = Field(default_factory=KvCacheConfig)
    scheduler_config: SchedulerConfig = Field(default_factory=SchedulerConfig)
    cache_transceiver_config: CacheTransceiverConfig | None = None
    sparse_attention_config: SparseAttentionConfig | None = None
    # An object, which only DecodingBaseConfig.from_dict creates from the section of a file.
    speculative_config: t.Any = None
    max_batch_size: int | None = None
    max_input_len: int | None = None
    max_beam_width: int | None = None
    backend: str | None = "pytorch"

    cuda_graph_config: CudaGraphConfig | None = Field(default_factory=CudaGraphConfig)
    attention_dp_config: CommonAttentionDpConfig | None = None
    moe_config: MoeConfig = Field(default_factory=MoeConfig)

    if EARLY:
        build_config: t.Any = None
    else:
        custom_tokenizer: str | None = None
        model_kwargs: dict[str, t.Any] | None = None
        pp_partition: list[int] | None = None
        otlp_traces_endpoint: str | None = None
        env_overrides: dict[str, str] | None = None
        nvfp4_gemm_config: Nvfp4GemmConfig = Field(default_factory=Nvfp4GemmConfig)
        sampler_force_async_worker: bool = False
        ray_placement_config: dict[str, t.Any] | None = None
        enable_sleep: bool = False
        disable_flashinfer_sampling: bool = False
        max_stats_len: int = 1000

    @model_validator(mode="after")
    def _speculation(self) -> TorchLlmArgs:
        config = self.speculative_config
        if config is None:
            return self
        if not isinstance(config, DecodingBaseConfig):
            raise ValueError("speculative_config should be an instance of a decoding config")
        if not config.pytorch:
            raise ValueError(f"Speculation type {config.decoding_type} does not support backend pytorch")
        config.check()
        return self
