"""Table 1 (L4.6) as four models that train: self-attention, recurrent, convolutional, restricted self-attention.

    python -m tools.table1                  trains the four on the same pairs and writes docs/evidence/table1.md
    python -m tools.table1 --steps 20       a quick look, printed only

Encoder and decoder of each model have the row's kind of layer; everything else is the same: width, layers, embeddings,
attention over the encoder, task, seed, steps. What the formulas predict stands beside what was measured: work by
counting the products that run, the longest path by derivative, on stacks that grow until the last token's vector
depends on the first token.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from clearhead.costing import cost
from clearhead.costing.tracing import attention_path, counted_macs, longest_chain
from clearhead.files import write_whole
from clearhead.models import Seq2Seq, build
from clearhead.recipe import Recipe, read_recipe, recipe_from, recipe_table
from tools.learning import BOS, NO_QUESTION, PAD, SIZES, lines_right, reverse

PAGE = Path("docs/evidence/table1.md")
LENGTH, WIDTH, KERNEL, WINDOW = 33, 64, 3, 9
"""Tokens of a line where work and paths are compared, features of a token, k, and r."""
STEPS, BATCH, RATE, HELD_OUT = 150, 32, 3e-3, 50
SHORTEST, LONGEST = 5, 6

Overrides = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A row of Table 1 and the model that stands for it."""

    name: str
    work: str
    """Per layer, as the table prints it."""
    sequential: str
    path: str
    overrides: Overrides
    grows: bool = True
    """Whether its path is counted in layers; otherwise in steps of one layer."""

    def recipe(self, *more: str) -> Recipe:
        """The model, small, with everything but the layers alike."""
        sizes = recipe_table(read_recipe(None, *SIZES, "model.layers=2", "decoding.beam_size=1"))
        return recipe_from(sizes, *self.overrides, f"model.width={WIDTH}", *more)


def _both(*settings: str) -> Overrides:
    return tuple(f"model.{part}.{setting}" for setting in settings for part in ("encoder", "decoder"))


ROWS = (
    Row("self-attention", "O(n²·d)", "O(1)", "O(1)", _both("attention.kind=multihead")),
    Row(
        "recurrent",
        "O(n·d²)",
        "O(n)",
        "O(n)",
        (
            *_both("kind=recurrent", "cell=elman"),
            "model.encoder.bidirectional=false",
            "model.decoder.attention.kind=luong",
            "model.decoder.attention.input_feeding=false",
        ),
        grows=False,
    ),
    Row(
        "convolutional",
        "O(k·n·d²)",
        "O(1)",
        "O(log_k n)",
        _both("kind=convolutional", f"kernel={KERNEL}", "dilation=powers"),
    ),
    Row(
        "self-attention (restricted)",
        "O(r·n·d)",
        "O(1)",
        "O(n/r)",
        _both("attention.kind=local", f"attention.window={WINDOW}"),
    ),
)


@dataclass(frozen=True)
class Result:
    """What was predicted of a row's model, and what was seen."""

    row: Row
    macs: int
    """Of the encoder, by formula …"""
    counted: int
    """… and as it ran."""
    path: int
    """Of the encoder, by formula: layers, or steps of one layer …"""
    traced: int
    """… and by derivative."""
    written_path: str
    sequential: int
    """Operations of one encoder layer along the line that wait for each other, by formula …"""
    waiting: int
    """… and the additional matrix products in sequence per additional token, counted on autograd's graph, times n."""
    first_loss: float
    last_loss: float
    right: float
    seconds: float


def run(row: Row, *, steps: int = STEPS, length: int = LENGTH, held_out: int = HELD_OUT) -> Result:
    """Predict, measure, train, answer."""
    recipe = row.recipe()
    encoder = cost(recipe)["encoder"]
    model = build(recipe, seed=1).eval()
    assert isinstance(model, Seq2Seq)
    attention_path(model, "explicit")
    ids = torch.randint(4, 12, (1, length))
    counted = counted_macs(lambda: model.encoder(ids))
    assert encoder.path is not None
    layer = next(part for part in encoder.parts if part.name.startswith("layers"))
    first, last, right, seconds = train(recipe, steps=steps, held_out=held_out)
    return Result(
        row=row,
        macs=encoder.macs.at(B=1, n=length),
        counted=counted,
        path=encoder.path.at(n=length),
        traced=traced_path(row, length),
        written_path=str(encoder.path),
        sequential=layer.sequential.at(n=length),
        waiting=waiting(row, length),
        first_loss=first,
        last_loss=last,
        right=right,
        seconds=seconds,
    )


def traced_path(row: Row, length: int) -> int:
    """The layers after which the last token's vector depends on the first token; for a recurrent net, its steps."""
    if not row.grows:
        return length if _depends(row.recipe("model.encoder.layers=1"), length) else 0
    for layers in range(1, length + 1):
        if _depends(row.recipe(f"model.encoder.layers={layers}"), length):
            return layers
    raise ValueError(f"{length} layers of {row.name} do not join {length} tokens")


def _depends(recipe: Recipe, length: int) -> bool:
    """Whether ∂(last vector)/∂(first token) is not 0 in the encoder."""
    model = build(recipe, seed=1).double().eval()
    encoder = model.get_submodule("encoder")
    embedded: list[Tensor] = []
    hook = encoder.get_submodule("embedding").register_forward_hook(lambda _m, _i, out: embedded.append(out))
    states: Tensor = encoder(torch.full((1, length), 5))
    hook.remove()
    (gradient,) = torch.autograd.grad(
        states[0, -1] @ torch.linspace(1, 2, states.shape[-1], dtype=states.dtype), embedded
    )
    return bool(gradient[0, 0].abs().max() > 0)


def waiting(row: Row, length: int) -> int:
    """Matrix products that wait for each other along the line: the growth of the longest chain from n to 2n tokens."""
    model = build(row.recipe("model.encoder.layers=1"), seed=1).eval()
    attention_path(model, "explicit")
    chains = [_chain(model.get_submodule("encoder"), tokens) for tokens in (length, 2 * length)]
    return max(chains[1] - chains[0], 1)


def _chain(encoder: nn.Module, length: int) -> int:
    states: Tensor = encoder(torch.full((1, length), 5))
    return longest_chain(states)


def train(recipe: Recipe, *, steps: int, held_out: int) -> tuple[float, float, float, float]:
    """The first and the last loss, the share of new lines that greedy decoding reverses, and seconds."""
    started = time.process_time()
    model = build(recipe, seed=1)
    assert isinstance(model, Seq2Seq)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 30, 1 - step / (steps + 1)))
    chance = Generator().manual_seed(1)
    draw = partial(reverse, shortest=SHORTEST, longest=LONGEST)
    losses = []
    for _ in range(steps):
        batch = draw(chance, BATCH)
        start = torch.full_like(batch.answers[:, :1], BOS)
        given = batch.answers[:, :-1].masked_fill(batch.answers[:, :-1] == NO_QUESTION, PAD)
        logits = model(batch.inputs, torch.cat((start, given), dim=1))
        loss = F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten(), ignore_index=NO_QUESTION)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        right = lines_right(model, draw(Generator().manual_seed(1_000_001), held_out), recipe)
    return losses[0], losses[-1], right, time.process_time() - started


def table(results: list[Result], steps: int) -> Iterator[str]:
    """The page, line by line."""
    yield "| layer | work, the table | MACs, formula | counted | sequential | counted | path | formula | traced |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in results:
        row = one.row
        yield (
            f"| {row.name} | {row.work} | {one.macs:,} | {one.counted:,} | {one.sequential} | {one.waiting} | "
            f"{row.path}: {one.written_path} | {one.path} | {one.traced} |"
        )
    yield ""
    yield f"| layer | loss, first step | loss, step {steps:,} | lines reversed | seconds |"
    yield "|---|---|---|---|---|"
    for one in results:
        yield (f"| {one.row.name} | {one.first_loss:.2f} | {one.last_loss:.3f} | {one.right:.1%} | {one.seconds:.0f} |")


def page(results: list[Result], steps: int) -> str:
    """The evidence as Markdown."""
    head = f"""# Table 1, as models that train

`python -m tools.table1` trains four encoder-decoders that differ in their layers alone, and writes this page. Each
has two layers of width {WIDTH} on either side and attends to its encoder; the task is to write {SHORTEST} or
{LONGEST} symbols backwards, from {BATCH} freshly drawn lines in each of {steps:,} steps, with the same seed. Each
is a recipe:

"""
    recipes = [f"- {one.row.name}: `{' '.join(one.row.overrides)}`" for one in results]
    legend = f"""
Work and paths are those of the encoder at n = {LENGTH} tokens, d = {WIDTH}, k = {KERNEL}, r = {WINDOW} (keys, on
both sides, the query's own among them). MACs are multiply-accumulates of the whole encoder, projections and
feed-forward nets included, by formula and counted as it runs. A path is traced by derivative: layers are added
until the last vector depends on the first token; the recurrent net needs one layer, of n steps.
The encoder sees both sides,
so a layer of windows carries a signal (r − 1)/2 tokens far, and a kernel has (k + 1)/2 tokens on a side, which is
the base of the dilations. Sequential operations are counted as what n more tokens add to the longest chain of
matrix products, 1 if nothing.
"""
    return head + "\n".join(recipes) + "\n" + legend + "\n" + "\n".join(table(results, steps)) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Train, print and write; 1 if a formula is not what was measured, or a loss has not fallen by a fifth."""
    parser = argparse.ArgumentParser(description="Table 1 (L4.6) as four models that train")
    parser.add_argument("--steps", type=int, default=STEPS, help="training steps of each model; fewer write no page")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    results = []
    for row in ROWS:
        results.append(run(row, steps=asked.steps))
        print(f"{row.name}: done", file=sys.stderr, flush=True)
    print("\n".join(table(results, asked.steps)))
    wrong = [one.row.name for one in results if (one.macs, one.path) != (one.counted, one.traced)]
    if asked.steps >= STEPS:
        write_whole(PAGE, page(results, asked.steps).encode())
        wrong += [one.row.name for one in results if one.last_loss > 0.8 * one.first_loss]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
