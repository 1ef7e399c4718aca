# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The commands of NVIDIA's page for gpt-oss-120b with EAGLE-3, typed by hand: what the playbook is timed against.
set -eu

docker run -d --name by-hand -v "$HOME/.cache/huggingface/:/hf/" -e HF_HOME=/hf \
  --ulimit memlock=-1 --ulimit stack=67108864 --gpus=all --ipc=host --network host \
  nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12 bash -c '
    set -eu
    hf download openai/gpt-oss-120b --exclude "original/*" "metal/*"
    hf download nvidia/gpt-oss-120b-Eagle3-long-context --local-dir /opt/gpt-oss-120b-Eagle3/
    cat > /tmp/extra-llm-api-config.yml <<END
enable_attention_dp: false
disable_overlap_scheduler: false
enable_autotuner: false
cuda_graph_config:
  max_batch_size: 1
speculative_config:
  decoding_type: Eagle
  max_draft_len: 5
  speculative_model_dir: /opt/gpt-oss-120b-Eagle3/
kv_cache_config:
  free_gpu_memory_fraction: 0.9
  enable_block_reuse: false
END
    export TIKTOKEN_ENCODINGS_BASE=/tmp/harmony-reqs
    mkdir -p $TIKTOKEN_ENCODINGS_BASE
    cd $TIKTOKEN_ENCODINGS_BASE
    curl -sO https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken
    curl -sO https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken
    trtllm-serve openai/gpt-oss-120b --backend pytorch --tp_size 1 --max_batch_size 1 \
      --extra_llm_api_options /tmp/extra-llm-api-config.yml' >/dev/null

for _second in $(seq 120); do
  curl -sf http://127.0.0.1:8000/health && break
  sleep 1
done
curl -sf http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' -d '{
  "model": "openai/gpt-oss-120b",
  "prompt": "Solve the following problem step by step. If a train travels 180 km in 3 hours, and then slows down by 20% for the next 2 hours, what is the total distance traveled? Show all intermediate calculations and provide a final numeric answer.",
  "max_tokens": 300,
  "temperature": 0.7
}' | grep -q '"text"'
