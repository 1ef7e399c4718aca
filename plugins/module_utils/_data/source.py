# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# PRIVATE: this module util is internal to the collection; its interface may change at any time.

"""The usual sources of known problems."""

from __future__ import annotations

TENSORRT_LLM = "NVIDIA/TensorRT-LLM, source code"
SERVE = "NVIDIA/TensorRT-LLM tensorrt_llm/commands/serve.py"
NCCL = "NVIDIA/nccl, source code"
NCCL_DOCS = "NVIDIA NCCL documentation, troubleshooting"
SPARKS = "NVIDIA DGX Spark playbook 'Connect Two Sparks', troubleshooting"
SPECULATIVE = "NVIDIA DGX Spark playbook 'Speculative Decoding', troubleshooting"
TRT_LLM = "NVIDIA DGX Spark playbook 'TRT LLM for Inference', troubleshooting"
NIM = "NVIDIA DGX Spark playbook 'NIM on Spark', troubleshooting"
VLLM = "NVIDIA DGX Spark playbook 'vLLM for Inference', troubleshooting"
NEMOTRON = "NVIDIA DGX Spark playbook 'Nemotron', troubleshooting"
DOCKER_DOCS = "Docker documentation"
KERNEL_DOCS = "Linux kernel documentation"
XID_DOCS = "NVIDIA documentation 'XID Errors'"
HUB_DOCS = "Hugging Face Hub documentation"
# Several users report it, but there is no thread to cite.
USERS = "reports of DGX Spark users"
USERS_OF_TWO = "reports of users of two DGX Sparks"
THIS = "dgx_spark.speculative documentation"
