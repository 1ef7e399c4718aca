# mypy: disable-error-code="import-not-found"
# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the engine options of the family 1.3.0rc12, with the changes of newer releases: names, types and errors.

They are written from the published behaviour of that family, independently of the collection's validator: that must not
be tested against its own copy.
"""

from __future__ import annotations

import logging
import typing as t

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

from .release import RECENT

log = logging.getLogger("TRT-LLM")

Fraction = t.Annotated[float, Field(ge=0, le=1)]
Path = str


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class SuffixAutomatonConfig(Strict):
    threshold: int = 4
    enable_global_pool: bool = False


class DecodingBaseConfig(Strict):
    max_draft_len: NonNegativeInt | None = None
    max_total_draft_tokens: int | None = None
    speculative_model: Path | None = Field(
        default=None, validation_alias=AliasChoices("speculative_model", "speculative_model_dir")
    )
    max_concurrency: PositiveInt | None = None
    draft_len_schedule: dict[int, int] | None = None
    load_format: str | None = None
    if RECENT:
        acceptance_rate_window_size: NonNegativeInt | None = None
        acceptance_rate_threshold: Fraction | None = None
    else:
        acceptance_window: NonNegativeInt | None = None
        acceptance_length_threshold: NonNegativeFloat | None = None
    allow_advanced_sampling: bool = False

    # Name in the messages, and requirements of the type.
    _label: t.ClassVar[str] = ""
    _missing_model: t.ClassVar[str | None] = None
    _needs_length: t.ClassVar[bool] = True
    _scheduled: t.ClassVar[bool] = True
    pytorch: t.ClassVar[bool] = True
    # The kind of drafts that the stand-in simulates; empty for none.
    kind: t.ClassVar[str] = ""
    # True if the engine has statistics of the drafts.
    counted: t.ClassVar[bool] = True

    @property
    def draft(self) -> str | None:
        return self.speculative_model

    @property
    def samples_freely(self) -> bool:
        return self.allow_advanced_sampling

    @property
    def one_model(self) -> bool:
        """Return whether the drafts are made in the target's own passes."""
        return self.kind not in ("", "ngram") and getattr(self, "eagle3_one_model", True) is not False

    @field_validator("draft_len_schedule")
    @classmethod
    def _schedule(cls, value: dict[int, int] | None) -> dict[int, int] | None:
        if value is None:
            return None
        if not value:
            raise ValueError("draft_len_schedule must not be empty")
        if any(key < 1 for key in value):
            raise ValueError("draft_len_schedule keys (batch sizes) must be >= 1")
        if any(length < 0 for length in value.values()):
            raise ValueError("draft_len_schedule values (draft lengths) must be >= 0")
        return dict(sorted(value.items()))

    @model_validator(mode="after")
    def _check(self) -> DecodingBaseConfig:
        if self._needs_length and not self.max_draft_len:
            raise ValueError(f"max_draft_len must be > 0 for {self._label}")
        if self._missing_model is not None and self.speculative_model is None:
            raise ValueError(self._missing_model)
        if self.max_concurrency is not None and self.draft_len_schedule is not None:
            raise ValueError("max_concurrency and draft_len_schedule are mutually exclusive")
        if self.draft_len_schedule is not None:
            first = self.draft_len_schedule[min(self.draft_len_schedule)]
            if first != self.max_draft_len:
                raise ValueError(
                    f"draft_len_schedule[{min(self.draft_len_schedule)}] must equal max_draft_len "
                    f"({self.max_draft_len}), got {first}"
                )
            if max(self.draft_len_schedule.values()) > first:
                raise ValueError("draft_len_schedule values must not exceed max_draft_len")
        elif self.max_concurrency is not None and self._scheduled and self.max_draft_len is not None:
            self.draft_len_schedule = {self.max_concurrency: self.max_draft_len}
        return self

    def length_for(self, running: int) -> int:
        """Return the draft length for this number of running requests."""
        if self.draft_len_schedule is None:
            return self.max_draft_len or 0
        fitting = [batch for batch in self.draft_len_schedule if batch >= running]
        return self.draft_len_schedule[min(fitting)] if fitting else 0


class EagleDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["Eagle"] = "Eagle"
    if not RECENT:
        eagle_choices: list[list[int]] | None = None
        greedy_sampling: bool | None = True
        posterior_threshold: float | None = None
        eagle3_one_model: bool | None = True
    use_dynamic_tree: bool | None = False
    dynamic_tree_max_topK: int | None = None
    num_eagle_layers: int | None = None
    max_non_leaves_per_layer: int | None = None
    eagle3_layers_to_capture: set[int] | None = None
    eagle3_model_arch: t.Literal["llama3", "mistral_large3"] = "llama3"

    kind = "eagle3"
    _label = "Eagle"
    _missing_model = "Draft model must be provided for EAGLE"

    @model_validator(mode="after")
    def _tree(self) -> EagleDecodingConfig:
        if self.dynamic_tree_max_topK is not None:
            self.use_dynamic_tree = True
        if getattr(self, "eagle_choices", None) is not None and self.use_dynamic_tree:
            raise ValueError("If eagle_choices is provided, use_dynamic_tree should be False")
        if self.use_dynamic_tree:
            if self.dynamic_tree_max_topK is None:
                raise ValueError("dynamic_tree_max_topK should be provided, which indicates the number of nodes")
            total, length = self.max_total_draft_tokens, self.max_draft_len or 0
            if total is not None and not length <= total <= self.dynamic_tree_max_topK * length:
                raise ValueError(
                    "max_total_draft_tokens should be between max_draft_len and dynamic_tree_max_topK * max_draft_len"
                )
        return self


class Eagle3DecodingConfig(EagleDecodingConfig):
    decoding_type: t.Literal["Eagle3"] = "Eagle3"  # type: ignore[assignment]
    sa_config: SuffixAutomatonConfig | None = None


class DraftTargetDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["Draft_Target"] = "Draft_Target"

    kind = "draft_target"
    _label = "DraftTarget"
    _missing_model = "speculative_model must be specified for DraftTarget"


class NGramDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["NGram"] = "NGram"
    max_matching_ngram_size: PositiveInt = 2
    is_keep_all: bool = True
    is_use_oldest: bool = True
    is_public_pool: bool = True

    kind = "ngram"
    _label = "NGram"


class MTPDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["MTP"] = "MTP"
    num_nextn_predict_layers: PositiveInt = 1
    use_relaxed_acceptance_for_thinking: bool = False
    relaxed_topk: PositiveInt = 1
    relaxed_delta: NonNegativeFloat = 0.0
    use_mtp_vanilla: bool = False
    if not RECENT:
        mtp_eagle_one_model: bool = True
    num_nextn_predict_layers_from_model_config: PositiveInt = 1
    begin_thinking_phase_token: int = 128798
    end_thinking_phase_token: int = 128799
    sa_config: SuffixAutomatonConfig | None = None

    kind = "mtp"
    _needs_length = False

    @model_validator(mode="after")
    def _length(self) -> MTPDecodingConfig:
        # Newer releases ignore the number of layers beside a draft length.
        if not RECENT or self.max_draft_len is None:
            self.max_draft_len = self.num_nextn_predict_layers
        return self


class SaveHiddenStatesDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["SaveState"] = "SaveState"
    output_directory: str
    write_interval: PositiveInt = 20
    file_prefix: str = "data"
    eagle3_layers_to_capture: set[int] | None = None
    max_total_draft_tokens: int | None = 1
    eagle_choices: list[list[int]] | None = None

    _needs_length = False


class PARDDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["PARD"] = "PARD"
    mask_token_id: int | None = None
    sa_config: SuffixAutomatonConfig | None = None

    _label = "PARD"


class SADecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["SA"] = "SA"
    max_matching_ngram_size: int = -1
    enable_global_pool: bool = False
    global_pool_size: PositiveInt | None = None

    _label = "SA"

    @model_validator(mode="after")
    def _pool(self) -> SADecodingConfig:
        if self.max_matching_ngram_size != -1 and self.max_matching_ngram_size <= 0:
            raise ValueError("max_matching_ngram_size must be -1 or > 0 for SA")
        if self.enable_global_pool and self.max_matching_ngram_size > 64:
            raise ValueError("max_matching_ngram_size must be <= 64 with the global pool")
        if self.global_pool_size is not None and not self.enable_global_pool:
            raise ValueError("global_pool_size requires enable_global_pool")
        return self


class UserProvidedDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["User_Provided"] = "User_Provided"
    drafter: t.Any
    resource_manager: t.Any = None

    _needs_length = False


class LookaheadDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["Lookahead"] = "Lookahead"
    max_window_size: PositiveInt = 4
    max_ngram_size: PositiveInt = 3
    max_verification_set_size: PositiveInt = 4

    _needs_length = False
    pytorch = False


class MedusaDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["Medusa"] = "Medusa"
    medusa_choices: list[list[int]] | None = None
    num_medusa_heads: int | None = None

    _needs_length = False
    pytorch = False


class AutoDecodingConfig(DecodingBaseConfig):
    decoding_type: t.Literal["AUTO"] = "AUTO"

    _needs_length = False


# In the order in which the real server names the expected tags.
SpeculativeConfig = t.Annotated[
    t.Union[
        DraftTargetDecodingConfig,
        EagleDecodingConfig,
        Eagle3DecodingConfig,
        LookaheadDecodingConfig,
        MedusaDecodingConfig,
        MTPDecodingConfig,
        NGramDecodingConfig,
        UserProvidedDecodingConfig,
        SaveHiddenStatesDecodingConfig,
        PARDDecodingConfig,
        SADecodingConfig,
        AutoDecodingConfig,
    ],
    Field(discriminator="decoding_type"),
]


class CommonKvCacheConfig(Strict):
    """Options of the KV cache in both families."""

    enable_block_reuse: bool = True
    max_tokens: int | None = None
    max_attention_window: t.Annotated[list[PositiveInt], Field(min_length=1)] | None = None
    sink_token_length: int | None = None
    free_gpu_memory_fraction: Fraction | None = 0.9
    host_cache_size: int | None = None
    cross_kv_cache_fraction: float | None = None
    secondary_offload_min_priority: int | None = None
    event_buffer_max_size: int = 0
    attention_dp_events_gather_period_ms: int = 5
    enable_partial_reuse: bool = True
    copy_on_partial_reuse: bool = True
    use_uvm: bool = False
    max_gpu_total_bytes: NonNegativeInt = 0
    dtype: str = "auto"
    mamba_ssm_cache_dtype: t.Literal["auto", "float16", "bfloat16", "float32"] = "auto"
    tokens_per_block: int = 32


class KvCacheConfig(CommonKvCacheConfig):
    if not RECENT:
        onboard_blocks: bool = True
    mamba_ssm_stochastic_rounding: bool = False
    mamba_ssm_philox_rounds: PositiveInt = 10
    use_kv_cache_manager_v2: bool | t.Literal["auto"] = "auto" if RECENT else False
    max_util_for_resume: Fraction = 0.95

    @field_validator("dtype")
    @classmethod
    def _dtype(cls, value: str) -> str:
        known = ("auto", "fp8", "nvfp4", "float16", "bfloat16", "float32", "float8_e4m3fn", "half", "float")
        if value not in known:
            raise ValueError(f"Invalid kv_cache_config.dtype: {value}")
        return value


class CommonCudaGraphConfig(Strict):
    """Options of CUDA graphs in both families."""

    batch_sizes: list[int] | None = None
    max_batch_size: NonNegativeInt = 0
    enable_padding: bool = False


class CudaGraphConfig(CommonCudaGraphConfig):
    @model_validator(mode="after")
    def _sizes(self) -> CudaGraphConfig:
        if self.batch_sizes and self.max_batch_size not in (0, max(self.batch_sizes)):
            raise ValueError(
                "Please don't set both cuda_graph_config.batch_sizes and cuda_graph_config.max_batch_size.\n"
                f"cuda_graph_config.batch_sizes: {self.batch_sizes}, "
                f"cuda_graph_config.max_batch_size: {self.max_batch_size}"
            )
        return self


class CommonMoeConfig(Strict):
    """Options of MoE layers in both families."""

    max_num_tokens: int | None = None
    load_balancer: dict[str, t.Any] | str | None = None
    disable_finalize_fusion: bool = False
    use_low_precision_moe_combine: bool = False


class MoeConfig(CommonMoeConfig):
    backend: t.Literal[
        "AUTO", "CUTLASS", "CUTEDSL", "WIDEEP", "TRTLLM", "DEEPGEMM", "DENSEGEMM", "VANILLA", "TRITON"
    ] = "AUTO"


class DynamicBatchConfig(Strict):
    enable_batch_size_tuning: bool = True
    enable_max_num_tokens_tuning: bool = False
    dynamic_batch_moving_average_window: int = 128


class SchedulerConfig(Strict):
    capacity_scheduler_policy: t.Literal["MAX_UTILIZATION", "GUARANTEED_NO_EVICT", "STATIC_BATCH"] = (
        "GUARANTEED_NO_EVICT"
    )
    context_chunking_policy: t.Literal["FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"] | None = None
    dynamic_batch_config: DynamicBatchConfig | None = None
    waiting_queue_policy: t.Literal["fcfs"] = "fcfs"


class PeftCacheConfig(Strict):
    num_host_module_layer: int = 0
    num_device_module_layer: int = 0
    optimal_adapter_size: int = 8
    max_adapter_size: int = 64
    num_put_workers: int = 1
    num_ensure_workers: int = 1
    num_copy_streams: int = 1
    max_pages_per_block_host: int = 24
    max_pages_per_block_device: int = 8
    device_cache_percent: float = 0.02
    host_cache_size: int = 1024**3
    lora_prefetch_dir: str | None = None

    @field_validator("lora_prefetch_dir")
    @classmethod
    def _prefetch(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError(f"lora_prefetch_dir was set to '{value}' while LoRA prefetch is not supported")
        return value


class TorchCompileConfig(Strict):
    enable_fullgraph: bool = True
    enable_inductor: bool = False
    enable_piecewise_cuda_graph: bool = False
    capture_num_tokens: list[int] | None = None
    enable_userbuffers: bool = True
    max_num_streams: PositiveInt = 1


class CommonAttentionDpConfig(Strict):
    enable_balance: bool = False
    timeout_iters: int = 50
    batching_wait_iters: int = 10


class AttentionDpConfig(CommonAttentionDpConfig):
    enable_kv_cache_aware_routing: bool = False
    kv_cache_routing_load_balance_weight: float = 1.0


class CacheTransceiverConfig(Strict):
    backend: t.Literal["DEFAULT", "UCX", "NIXL", "MOONCAKE", "MPI"] | None = None
    transceiver_runtime: t.Literal["CPP", "PYTHON"] | None = None
    max_tokens_in_buffer: int | None = None
    kv_transfer_timeout_ms: PositiveInt | None = 60000
    kv_transfer_sender_future_timeout_ms: PositiveInt | None = 1000


class Nvfp4GemmConfig(Strict):
    allowed_backends: t.Annotated[
        list[t.Literal["cutlass", "cublaslt", "cutedsl", "cuda_core"]], Field(min_length=1)
    ] = ["cutlass", "cublaslt", "cuda_core"]


class CpConfig(Strict):
    cp_type: t.Literal["ULYSSES", "STAR", "RING", "HELIX"] = "ULYSSES"
    tokens_per_block: int | None = None
    use_nccl_for_alltoall: bool | None = None
    fifo_version: int | None = None
    cp_anchor_size: int | None = None
    block_size: int | None = None


class RocketSparseAttentionConfig(Strict):
    algorithm: t.Literal["rocket"]
    seq_len_threshold: int | None = None
    window_size: int | None = None
    kernel_size: int | None = None
    topr: int | float | None = None
    topk: int | None = None
    prompt_budget: int | None = None
    page_size: int | None = None
    kt_cache_dtype: str | None = None


class DeepSeekSparseAttentionConfig(Strict):
    algorithm: t.Literal["dsa"]
    seq_len_threshold: int | None = None
    index_n_heads: int | None = None
    index_head_dim: int | None = None
    index_topk: int | None = None
    indexer_max_chunk_size: int | None = None
    skip_indexer_for_short_seqs: bool = True


class SkipSoftmaxAttentionConfig(Strict):
    algorithm: t.Literal["skip_softmax"]
    seq_len_threshold: int | None = None
    threshold_scale_factor: float | dict[str, float] | None = None


SparseAttentionConfig = t.Annotated[
    t.Union[RocketSparseAttentionConfig, DeepSeekSparseAttentionConfig, SkipSoftmaxAttentionConfig],
    Field(discriminator="algorithm"),
]


class KvCacheConnectorConfig(Strict):
    connector_module: str
    connector_scheduler_class: str
    connector_worker_class: str


class DwdpConfig(Strict):
    dwdp_size: int = 1
    num_groups: int = 1
    num_experts_per_worker: int = 0
    num_prefetch_experts: int = 0


class LayerwiseBenchmarksConfig(Strict):
    calibration_mode: t.Literal["NONE", "MARK", "COLLECT"] = "NONE"
    calibration_file_path: str | None = None
    calibration_layer_indices: list[int] | None = None

    @model_validator(mode="after")
    def _file(self) -> LayerwiseBenchmarksConfig:
        if self.calibration_mode == "COLLECT" and not self.calibration_file_path:
            raise ValueError("Expect calibration_file_path not to be empty when work on COLLECT mode")
        return self


class CommonLlmArgs(Strict):
    """Top-level options of both families."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, protected_namespaces=())

    model: str
    tokenizer: str | None = None
    tokenizer_mode: t.Literal["auto", "slow"] = "auto"
    skip_tokenizer_init: bool = False
    trust_remote_code: bool = False
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    context_parallel_size: int = 1
    dtype: str = "auto"
    tokenizer_revision: str | None = None
    gpus_per_node: int | None = None
    moe_cluster_parallel_size: int | None = None
    moe_tensor_parallel_size: int | None = None
    moe_expert_parallel_size: int | None = None
    enable_attention_dp: bool = False
    enable_lm_head_tp_in_adp: bool = False
    enable_lora: bool = False
    lora_config: dict[str, t.Any] | None = None
    enable_chunked_prefill: bool = False
    guided_decoding_backend: t.Literal["xgrammar", "llguidance"] | None = None
    batched_logits_processor: t.Any = None
    iter_stats_max_iterations: int | None = None
    request_stats_max_iterations: int | None = None
    peft_cache_config: PeftCacheConfig | None = None
    max_seq_len: int | None = None
    max_num_tokens: int | None = 8192
    gather_generation_logits: bool = False
    num_postprocess_workers: int = 0
    postprocess_tokenizer_dir: str | None = None
    reasoning_parser: str | None = None
    decoding_config: t.Any = None
    mpi_session: t.Any = None
    return_perf_metrics: bool = False
    perf_metrics_max_requests: NonNegativeInt = 0
    orchestrator_type: t.Literal["rpc", "ray"] | None = None
    garbage_collection_gen0_threshold: int = 20000
    disable_overlap_scheduler: bool = False
    attn_backend: str = "TRTLLM"
    sampler_type: t.Literal["TRTLLMSampler", "TorchSampler", "auto"] = "auto"
    enable_iter_perf_stats: bool = False
    enable_iter_req_stats: bool = False
    print_iter_log: bool = False
    batch_wait_timeout_ms: NonNegativeFloat = 0
    batch_wait_timeout_iters: NonNegativeInt = 0
    batch_wait_max_tokens_ratio: Fraction = 0
    torch_compile_config: TorchCompileConfig | None = None
    enable_autotuner: bool = True
    enable_layerwise_nvtx_marker: bool = False
    enable_min_latency: bool = False
    force_dynamic_quantization: bool = False
    mm_encoder_only: bool = False
    load_format: str = "auto"
    stream_interval: PositiveInt = 1
    allreduce_strategy: (
        t.Literal[
            "AUTO",
            "NCCL",
            "UB",
            "MINLATENCY",
            "ONESHOT",
            "TWOSHOT",
            "LOWPRECISION",
            "MNNVL",
            "NCCL_SYMMETRIC",
        ]
        | None
    ) = "AUTO"
    checkpoint_loader: t.Any = None
    checkpoint_format: str | None = None
    kv_connector_config: KvCacheConnectorConfig | None = None
    ray_worker_extension_cls: str | None = None

    @field_validator("load_format")
    @classmethod
    def _load_format(cls, value: str) -> str:
        if value.lower() not in ("auto", "dummy", "vision_only"):
            raise ValueError(f"Invalid LoadFormat: {value}")
        return value.lower()

    @property
    def world_size(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.context_parallel_size


class TorchLlmArgs(CommonLlmArgs):
    """All top-level options: those of every backend, then those of the pytorch backend."""

    custom_tokenizer: str | None = None
    revision: str | None = Field(default=None, validation_alias=AliasChoices("revision", "hf_revision"))
    model_kwargs: dict[str, t.Any] | None = None
    pp_partition: list[int] | None = None
    cp_config: CpConfig | None = None
    kv_cache_config: KvCacheConfig = Field(default_factory=KvCacheConfig)
    scheduler_config: SchedulerConfig = Field(default_factory=SchedulerConfig)
    cache_transceiver_config: CacheTransceiverConfig | None = None
    sparse_attention_config: SparseAttentionConfig | None = None
    speculative_config: SpeculativeConfig | None = None
    max_batch_size: int | None = 2048
    max_input_len: int | None = 1024
    max_beam_width: int | None = 1
    otlp_traces_endpoint: str | None = None
    backend: t.Literal["pytorch"] = "pytorch"
    enable_energy_metrics: bool = False
    env_overrides: dict[str, str] | None = None

    cuda_graph_config: CudaGraphConfig | None = Field(default_factory=CudaGraphConfig)
    attention_dp_config: AttentionDpConfig | None = None
    moe_config: MoeConfig = Field(default_factory=MoeConfig)
    nvfp4_gemm_config: Nvfp4GemmConfig = Field(default_factory=Nvfp4GemmConfig)
    dwdp_config: DwdpConfig | None = None
    sampler_force_async_worker: bool = False
    ray_placement_config: dict[str, t.Any] | None = None
    ray_worker_nsight_options: dict[str, t.Any] | None = None
    sleep_config: dict[str, t.Any] | None = None
    use_cute_dsl_blockscaling_mm: bool = False
    use_cute_dsl_blockscaling_bmm: bool = False
    disable_flashinfer_sampling: bool = False
    max_stats_len: int = 1000
    layer_wise_benchmarks_config: LayerwiseBenchmarksConfig = Field(default_factory=LayerwiseBenchmarksConfig)
    video_pruning_rate: t.Annotated[float, Field(ge=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _speculation(self) -> TorchLlmArgs:
        config = self.speculative_config
        if config is None:
            return self
        if not config.pytorch:
            raise ValueError(f"Speculation type {config.decoding_type} does not support backend pytorch")
        if type(config) is EagleDecodingConfig:
            log.warning(
                "speculative_config.decoding_type 'Eagle' is treated as 'Eagle3' on the PyTorch backend. "
                "Please use 'Eagle3' instead."
            )
            fields = config.model_dump(exclude={"decoding_type"})
            self.speculative_config = config = Eagle3DecodingConfig(**fields)
        if isinstance(config, PARDDecodingConfig) and config.speculative_model is None:
            raise ValueError("speculative_model must be specified for PARD")
        if isinstance(config, SADecodingConfig):
            pool = config.global_pool_size
            if pool is not None and pool < (self.max_batch_size or 0):
                raise ValueError("global_pool_size must be >= max_batch_size")
        if config.draft_len_schedule is not None and self.cuda_graph_config is not None:
            self.cuda_graph_config.enable_padding = True
        return self

    @model_validator(mode="after")
    def _parallelism(self) -> TorchLlmArgs:
        ray = ("ray_worker_extension_cls", "ray_placement_config", "ray_worker_nsight_options")
        for name in ray:
            if getattr(self, name) is not None and self.orchestrator_type != "ray":
                raise ValueError(f"{name} is only supported with orchestrator_type='ray'")
        return self
