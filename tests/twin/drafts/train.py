# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Train the drafts of a model on its answers, in vLLM's image: an EAGLE-3 head, and a draft model.

The draft model is a few of the model's own layers.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import time
import typing as t
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn.functional import linear, rms_norm, silu
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM

MODEL, MADE = Path("/model"), Path("/made")
SEED, BATCH = 2, 1024
# The head may say the tokens that the model says most. It has as many key/value heads as the model.
VOCABULARY, HEADS, KV_HEADS, SIZE, INNER = 4096, 8, 4, 64, 1024
# A draft of several tokens feeds the head its own state. That is taught at the end, because it takes thrice the time.
UNROLL = 3
HEAD_STEPS, UNROLLED_STEPS, DRAFT_STEPS = 250, 75, 75
DRAFT_LAYERS = (0, 1, 29)
# The highest rates of learning.
PEAKS = {"eagle3": 3e-3, "draft": 1e-3}

Weights = dict[str, torch.Tensor]
# Keys and values of the tokens of a draft so far.
Past = list[tuple[torch.Tensor, torch.Tensor]]


@dataclasses.dataclass(frozen=True)
class Text:
    """A conversation as the model sees it, a row a token."""

    tokens: torch.Tensor
    # The inputs of three layers, side by side.
    layers: torch.Tensor
    # What the output matrix gets, and the token that the model would say next.
    last: torch.Tensor
    best: torch.Tensor
    # Whether the next token is one of the answer.
    answer: torch.Tensor


def layers_of(config: LlamaConfig) -> tuple[int, int, int]:
    """Return the layers whose inputs vLLM hands to a head by default."""
    return 2, config.num_hidden_layers // 2, config.num_hidden_layers - 3


def groups(lengths: t.Sequence[int], budget: int) -> list[list[int]]:
    """Return numbers of texts of about the same length, at most so many tokens together."""
    made: list[list[int]] = [[]]
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if (len(made[-1]) + 1) * lengths[i] > budget:
            made.append([])
        made[-1].append(i)
    return [group for group in made if group]


@torch.inference_mode()
def read(model: LlamaForCausalLM, answers: t.Sequence[tuple[list[int], int]]) -> list[Text]:
    """Return what the model makes of its own answers."""
    texts: dict[int, Text] = {}
    for group in groups([len(tokens) for tokens, _prompt in answers], 4 * BATCH):
        ids = [torch.tensor(answers[i][0]) for i in group]
        # Under causal attention no token sees the padding behind it.
        said = model.model(pad_sequence(ids, batch_first=True), output_hidden_states=True, use_cache=False)
        layers = torch.cat([said.hidden_states[layer] for layer in layers_of(model.config)], -1)
        best = model.lm_head(said.last_hidden_state).argmax(-1)
        for row, i in enumerate(group):
            size, prompt = len(ids[row]), answers[i][1]
            parts = [part[row, :size].clone() for part in (layers, said.last_hidden_state, best)]
            texts[i] = Text(ids[row], parts[0], parts[1], parts[2], torch.arange(size) >= prompt - 1)
    return [texts[i] for i in range(len(answers))]


def batches(texts: t.Sequence[Text], steps: int) -> t.Iterator[Text]:
    """Yield padded batches, each text once before any comes twice."""
    grouped, chance = groups([len(text.tokens) for text in texts], BATCH), torch.Generator().manual_seed(SEED)
    order: list[int] = []
    for _step in range(steps):
        order = order or torch.randperm(len(grouped), generator=chance).tolist()
        chosen = [texts[i] for i in grouped[order.pop()]]
        fields = [field.name for field in dataclasses.fields(Text)]
        yield Text(*(pad_sequence([getattr(text, name) for text in chosen], batch_first=True) for name in fields))


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of the output matrix that drafts are taught with: those of the tokens that the model says most."""

    said: torch.Tensor
    matrix: torch.Tensor
    known: torch.Tensor


def rows_of(model: LlamaForCausalLM, texts: t.Sequence[Text]) -> Rows:
    """Return the rows, in the order of the tokens."""
    counts = torch.cat([text.best for text in texts]).bincount(minlength=model.config.vocab_size)
    said = counts.argsort(descending=True, stable=True)[:VOCABULARY].sort().values
    print(f"{len(said)} tokens are {counts[said].sum() / counts.sum():.4f} of what the model says", flush=True)
    known = torch.zeros(model.config.vocab_size, dtype=torch.bool).index_fill_(0, said, True)
    return Rows(said, model.lm_head.weight.detach()[said].to(torch.bfloat16), known)


def distance(state: torch.Tensor, batch: Text, rows: Rows, ahead: int) -> tuple[torch.Tensor, float]:
    """Return how far a draft's words are from the model's, so many rows ahead; and the share that is the same."""
    best, answer = batch.best[:, ahead:], batch.answer[:, ahead:]
    use = answer & rows.known[best]
    with torch.no_grad():
        wanted = (batch.last[:, ahead:][use] @ rows.matrix.T).float().softmax(-1)
    logits = (state[use].to(torch.bfloat16) @ rows.matrix.T).float()
    same = (rows.said[logits.detach().argmax(-1)] == best[use]).sum() / answer.sum()
    return -(wanted * logits.log_softmax(-1)).sum(-1).mean(), same.item()


Losses = t.Callable[[Text, int], list[tuple[torch.Tensor, float]]]


def teach(name: str, parameters: t.Sequence[torch.Tensor], texts: t.Sequence[Text], steps: int, losses: Losses) -> None:
    """Change the parameters until the losses are small: of one token of a draft, or of several."""
    adam = torch.optim.AdamW(parameters, lr=PEAKS[name], betas=(0.9, 0.95), weight_decay=0.01)
    warm = steps // 20
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda step: min((step + 1) / warm, 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.02)
    )
    said: list[list[float]] = []
    for step, batch in enumerate(batches(texts, steps)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = losses(batch, step)
            loss = sum(loss * 0.8**i for i, (loss, _same) in enumerate(made))
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()
        schedule.step()
        said = [*said[-24:], [same for _loss, same in made]]
        if step % 25 == 24:
            shares = (sum(column) / len(column) for column in zip(*said[-25:]))
            agreed = " ".join(f"{share:.2f}" for share in shares)
            print(f"{name}, step {step + 1}: agrees {agreed}; {time.process_time():.0f} CPU seconds", flush=True)


# The head: names as vLLM loads them.


def head_weights(config: LlamaConfig, final_norm: torch.Tensor) -> Weights:
    """Return the weights of a head that knows nothing."""
    hidden, chance = config.hidden_size, torch.Generator().manual_seed(SEED)
    shapes = {
        "fc": (hidden, 3 * hidden),
        **{f"midlayer.self_attn.{part}_proj": (KV_HEADS * SIZE, 2 * hidden) for part in "kv"},
        "midlayer.self_attn.q_proj": (HEADS * SIZE, 2 * hidden),
        "midlayer.self_attn.o_proj": (hidden, HEADS * SIZE),
        **{f"midlayer.mlp.{part}_proj": (INNER, hidden) for part in ("gate", "up")},
        "midlayer.mlp.down_proj": (hidden, INNER),
    }
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    names = [*(f"fc_norm.{i}" for i in range(3)), *(f"midlayer.{norm}" for norm in norms)]
    weights = {name: torch.ones(hidden) for name in names} | {"norm": final_norm.float().clone()}
    for name, (outputs, inputs) in shapes.items():
        weights[name] = (torch.rand(outputs, inputs, generator=chance) * 2 - 1) / math.sqrt(inputs)
    return {f"{name}.weight": weight.requires_grad_() for name, weight in weights.items()}


@dataclasses.dataclass(frozen=True)
class Head:
    """A head that computes as vLLM's llama_eagle3.py does."""

    weights: Weights
    base: float

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return the values with a root mean square of one, times the weight."""
        return rms_norm(x.float(), x.shape[-1:], self.weights[f"{name}.weight"], 1e-5)

    def apply(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return the product with a matrix."""
        return linear(x, self.weights[f"{name}.weight"])

    def start(self, layers: torch.Tensor) -> torch.Tensor:
        """Return the state from the model's layers. Without the norms the last layer would drown the others."""
        normed = [self.norm(f"fc_norm.{i}", part) for i, part in enumerate(layers.chunk(3, -1))]
        return self.apply("fc", torch.cat(normed, -1))

    def turned(self, x: torch.Tensor, start: int) -> torch.Tensor:
        """Return the rotary embedding, with positions from start on."""
        half = SIZE // 2
        angle = torch.outer(torch.arange(start, start + x.shape[-2]).float(), self.base ** -(torch.arange(half) / half))
        cos, sin, (a, b) = angle.cos(), angle.sin(), x.float().chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(torch.bfloat16)

    def attend(self, both: torch.Tensor, past: Past) -> torch.Tensor:
        """Attend to what the engine's cache holds: the text by the first token, and by each later one its own row."""
        q, k, v = (
            self.apply(f"midlayer.self_attn.{part}_proj", both).unflatten(-1, (-1, SIZE)).transpose(1, 2)
            for part in "qkv"
        )
        q, k = self.turned(q, len(past)), self.turned(k, len(past))
        past.append((k.repeat_interleave(HEADS // KV_HEADS, 1), v.repeat_interleave(HEADS // KV_HEADS, 1)))
        length = both.shape[1]
        rows = [(keys[:, :, :length], values[:, :, :length]) for keys, values in past]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = [(q @ rows[0][0].transpose(-1, -2)).float().masked_fill(later, -math.inf)]
        scores += [(q * keys).sum(-1, keepdim=True).float() for keys, _values in rows[1:]]
        share = (torch.cat(scores, -1) / math.sqrt(SIZE)).softmax(-1).to(v.dtype)
        found = share[..., :length] @ rows[0][1]
        for i, (_keys, values) in enumerate(rows[1:]):
            found = found + share[..., length + i, None] * values
        return self.apply("midlayer.self_attn.o_proj", found.transpose(1, 2).flatten(2))

    def step(self, embedded: torch.Tensor, state: torch.Tensor, past: Past) -> torch.Tensor:
        """Return the state after one more token."""
        both = [self.norm("midlayer.input_layernorm", embedded), self.norm("midlayer.hidden_norm", state)]
        state = state + self.attend(torch.cat(both, -1), past)
        x = self.norm("midlayer.post_attention_layernorm", state)
        inner = silu(self.apply("midlayer.mlp.gate_proj", x)) * self.apply("midlayer.mlp.up_proj", x)
        return state + self.apply("midlayer.mlp.down_proj", inner)


def train_head(model: LlamaForCausalLM, texts: t.Sequence[Text], rows: Rows, place: Path) -> None:
    """Write an EAGLE-3 head."""
    config, embeddings = model.config, model.model.embed_tokens.weight.detach()
    base = config.rope_parameters["rope_theta"]
    head = Head(head_weights(config, model.model.norm.weight.detach()), base)
    steps = HEAD_STEPS + UNROLLED_STEPS

    def losses(batch: Text, step: int) -> list[tuple[torch.Tensor, float]]:
        state, made = head.start(batch.layers), []
        past: Past = []
        length = batch.tokens.shape[1]
        # The state of row i gets token i + ahead, and has to say what the model says after it.
        for ahead in range(1, (UNROLL if step >= HEAD_STEPS else 1) + 1):
            state = head.step(embeddings[batch.tokens[:, ahead:]], state[:, : length - ahead], past)
            made.append(distance(head.norm("norm", state), batch, rows, ahead))
        return made

    teach("eagle3", list(head.weights.values()), texts, steps, losses)
    tensors = {name: weight.detach().to(torch.bfloat16) for name, weight in head.weights.items()}
    tensors |= {"lm_head.weight": rows.matrix, "d2t": rows.said - torch.arange(len(rows.said))}
    about = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": len(rows.said),
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "tie_word_embeddings": False,
        "fc_norm": True,
        "eagle_aux_hidden_state_layer_ids": list(layers_of(config)),
    }
    write(place, tensors, about)


def train_draft(model: LlamaForCausalLM, texts: t.Sequence[Text], rows: Rows, place: Path) -> None:
    """Write a draft model."""
    draft = LlamaForCausalLM(LlamaConfig(**{**model.config.to_dict(), "num_hidden_layers": len(DRAFT_LAYERS)})).float()
    kept = {f"model.layers.{old}.": f"model.layers.{new}." for new, old in enumerate(DRAFT_LAYERS)}
    weights: Weights = {}
    for name, weight in model.state_dict().items():
        layer = next((old for old in kept if name.startswith(old)), "")
        if layer or "layers" not in name:
            weights[name.replace(layer, kept[layer]) if layer else name] = weight.float()
    draft.load_state_dict(weights)
    draft.model.embed_tokens.weight.requires_grad_(False)

    def losses(batch: Text, _step: int) -> list[tuple[torch.Tensor, float]]:
        return [distance(draft.model(batch.tokens, use_cache=False).last_hidden_state, batch, rows, 0)]

    teach("draft", [weight for weight in draft.parameters() if weight.requires_grad], texts, DRAFT_STEPS, losses)
    tensors = {name: weight.to(torch.bfloat16) for name, weight in draft.state_dict().items() if "lm_head" not in name}
    write(place, tensors, {"num_hidden_layers": len(DRAFT_LAYERS)})


def write(place: Path, tensors: Weights, about: dict[str, t.Any]) -> None:
    """Write a checkpoint whose configuration is the model's own with changes."""
    place.mkdir()
    config = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))
    (place / "config.json").write_text(json.dumps({**config, **about}, indent=1) + "\n", encoding="utf-8")
    weights = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    # Another user serves it.
    (place / "model.safetensors").chmod(0o644)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(MODEL / name, place / name)


def main() -> None:
    """Train both."""
    # On a busy machine, two threads mostly wait for each other.
    torch.set_num_threads(1)
    model = LlamaForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16).eval()
    texts = read(model, torch.load(MADE / "answers.pt"))
    rows = rows_of(model, texts)
    print(f"read {sum(len(text.tokens) for text in texts)} tokens; {time.process_time():.0f} CPU seconds", flush=True)
    train_head(model, texts, rows, MADE / "eagle3")
    train_draft(model, texts, rows, MADE / "draft")


if __name__ == "__main__":
    main()
