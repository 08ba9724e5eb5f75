"""Training speed in target tokens per second: clearhead and the libraries people use.

    python -m benchmarks.train_speed [tiny small base] [--rounds 9] [--threads 2]

They are nn.Transformer, transformers' Marian, x-transformers and JoeyNMT. All train an encoder-decoder of the same
sizes on the same batches with AdamW (fused), label smoothing 0.1 and dropout 0.1; x-transformers, which has neither
here, without. Only JoeyNMT and nn.Transformer use dropout in attention, as they have one setting for all. A peer that
is not installed is left out with a message: `pip install x-transformers tensorboard matplotlib` and
`pip install --no-deps joeynmt`, whose own pins are outdated.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import BOS, EOS, Batch
from clearhead.models import build
from clearhead.positions import sinusoids
from clearhead.recipe import read_recipe
from clearhead.training import batch_loss
from clearhead.training.optimizer import make_optimizers


@dataclass(frozen=True)
class Size:
    """An encoder-decoder and its batches."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    lines: int
    length: int


SIZES = {
    "tiny": Size(4, 128, 4, 256, 10_000, 64, 32),
    "small": Size(3, 256, 4, 1024, 200, 128, 12),
    "base": Size(6, 512, 8, 2048, 32_000, 32, 32),
}
Step = Callable[[Batch], None]


def batches(size: Size, count: int) -> list[Batch]:
    """Lines of one length, as bucketing makes them."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(count):
        source = torch.randint(4, size.vocabulary, (size.lines, size.length), generator=generator)
        target = torch.randint(4, size.vocabulary, (size.lines, size.length), generator=generator)
        source[:, -1] = EOS
        inputs = torch.cat((torch.full((size.lines, 1), BOS), target[:, :-1]), dim=1)
        made.append(Batch(source, inputs, target))
    return made


def ours(size: Size) -> Step:
    """clearhead, as `clearhead train` runs it."""
    recipe = read_recipe(
        None,
        f"model.layers={size.layers}",
        f"model.width={size.width}",
        f"model.heads={size.heads}",
        f"model.feedforward.width={size.hidden}",
        f"model.vocabulary.source={size.vocabulary}",
        f"model.vocabulary.target={size.vocabulary}",
    )
    model: Any = build(recipe, seed=0)
    (optimizer,) = make_optimizers(model, recipe.training.optimizer)

    def step(batch: Batch) -> None:
        (batch_loss(model, batch, 0.1) / batch.tokens).backward()
        _finish(model, optimizer)

    return step


def torchs(size: Size) -> Step:
    """torch.nn.Transformer with tied target embeddings."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = (nn.Embedding(size.vocabulary, size.width) for _ in range(2))
            self.net = nn.Transformer(
                size.width, size.heads, size.layers, size.layers, size.hidden, 0.1, batch_first=True, norm_first=True
            )
            self.register_buffer("positions", sinusoids(size.length, size.width))

        def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
            scale = math.sqrt(size.width)
            left = self.source(source) * scale + self.positions
            right = self.target(inputs) * scale + self.positions
            mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
            states = self.net(left, right, tgt_mask=mask, tgt_is_causal=True)
            return F.linear(states, self.target.weight)

    return _plain(Model())


def marian_config(size: Size, **settings: Any) -> Any:
    """transformers' description of a Marian model of this size."""
    import transformers

    return transformers.MarianConfig(
        vocab_size=size.vocabulary,
        d_model=size.width,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=size.hidden,
        decoder_ffn_dim=size.hidden,
        max_position_embeddings=256,
        activation_function="relu",
        scale_embedding=True,
        **settings,
    )


def marian(size: Size) -> Step:
    """transformers' MarianMTModel with torch's fused attention."""
    import transformers

    config = marian_config(size, dropout=0.1, pad_token_id=0, decoder_start_token_id=0)
    model = transformers.MarianMTModel(config)
    model.set_attn_implementation("sdpa")

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
            logits: Tensor = self.net(input_ids=source, decoder_input_ids=inputs, use_cache=False).logits
            return logits

    return _plain(Model())


def x_transformers(size: Size) -> Step:
    """x-transformers' XTransformer with flash attention."""
    from x_transformers import XTransformer

    common = {"depth": size.layers, "heads": size.heads, "ff_mult": size.hidden / size.width}
    settings: dict[str, Any] = {}
    for side in ("enc", "dec"):
        settings |= {f"{side}_{name}": value for name, value in common.items()}
        settings |= {f"{side}_num_tokens": size.vocabulary, f"{side}_max_seq_len": size.length + 1}
        settings |= {f"{side}_attn_flash": True, f"{side}_attn_dim_head": size.width // size.heads}
    model = XTransformer(dim=size.width, tie_token_emb=False, **settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batch: Batch) -> None:
        # it shifts by itself: the first token is fed, the last one is only a label
        model(batch.source, torch.cat((batch.inputs[:, :1], batch.labels), dim=1)).backward()
        _finish(model, optimizer)

    return step


def joeynmt(size: Size) -> Step:
    """JoeyNMT's TransformerEncoder and TransformerDecoder, pre-norm."""
    from joeynmt.decoders import TransformerDecoder
    from joeynmt.encoders import TransformerEncoder

    settings: dict[str, Any] = {
        "num_layers": size.layers,
        "num_heads": size.heads,
        "hidden_size": size.width,
        "ff_size": size.hidden,
        "layer_norm": "pre",
    }

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = (nn.Embedding(size.vocabulary, size.width) for _ in range(2))
            self.encoder = TransformerEncoder(**settings)
            self.decoder = TransformerDecoder(vocab_size=size.vocabulary, **settings)
            self.decoder.output_layer.weight = self.target.weight

        def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
            there = torch.ones(len(source), 1, source.shape[1], dtype=torch.bool)
            scale = math.sqrt(size.width)
            memory, _ = self.encoder(self.source(source) * scale, None, there)
            logits: Tensor
            logits, *_ = self.decoder(
                trg_embed=self.target(inputs) * scale,
                encoder_output=memory,
                encoder_hidden=None,
                src_mask=there,
                unroll_steps=None,
                hidden=None,
                trg_mask=torch.ones(len(inputs), 1, inputs.shape[1], dtype=torch.bool),
            )
            return logits

    return _plain(Model())


def _plain(model: nn.Module) -> Step:
    """The usual step: whole logits, cross-entropy, AdamW."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batch: Batch) -> None:
        logits = model(batch.source, batch.inputs)
        F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), label_smoothing=0.1).backward()
        _finish(model, optimizer)

    return step


def _finish(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


PEERS: dict[str, Callable[[Size], Step]] = {
    "clearhead": ours,
    "nn.Transformer": torchs,
    "transformers Marian": marian,
    "x-transformers": x_transformers,
    "JoeyNMT": joeynmt,
}


def measure(size: Size, rounds: int) -> dict[str, float]:
    """Median seconds of a step for every installed peer; they take turns, and the first two rounds do not count."""
    steps: dict[str, Step] = {}
    for name, make in PEERS.items():
        torch.manual_seed(0)
        try:
            steps[name] = make(size)
        except ImportError as error:
            print(f"  {name}: left out ({error})")
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number, batch in enumerate(batches(size, rounds + 2)):
        for name, step in steps.items():
            start = time.perf_counter()
            step(batch)
            if number >= 2:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Print a table per size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=list(SIZES), help="which sizes: tiny, small, base")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.sizes:
        size = SIZES[name]
        print(
            f"{name}: {size.layers}+{size.layers} layers, d {size.width}, ff {size.hidden}, V {size.vocabulary:,}, "
            f"batches of {size.lines} × {size.length}, {arguments.threads} threads, {arguments.rounds} rounds"
        )
        medians = measure(size, arguments.rounds)
        for peer, seconds in medians.items():
            speed = size.lines * size.length / seconds
            print(f"  {peer:<20} {speed:8,.0f} target tokens/s   ours is {seconds / medians['clearhead']:.2f}×")


if __name__ == "__main__":
    main()
