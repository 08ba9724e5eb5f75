"""The parts of a logit add up to it; so do those of a difference. Every mechanism: ``test_recorder``."""

from typing import Any

import pytest
import torch

from clearhead.inspection import Record, record
from clearhead.inspection.parts import NoParts, parts_of, through_norm, why_not
from tests.inspection.cases import HEAD, NORMS, ROWS, SUM, TOKENS, apart, check_parts, ids, model_of
from tests.inspection.conftest import Hold
from tests.models.zoo import make

SOURCE, TARGET = ids(1, 6), ids(1, 5, seed=4)


def recorded(family: str, model: Any) -> Record:
    if family == "seq2seq":
        return record(model, SOURCE, TARGET)
    return record(model, None, TARGET) if family == "lm" else record(model, TARGET)


@pytest.mark.parametrize("norm", list(NORMS))
@pytest.mark.parametrize("family", ["seq2seq", "lm", "encoder", "classifier"])
def test_parts_add_up_for_every_norm(family: str, norm: str, hold: Hold) -> None:
    model = model_of(family, norm)
    check_parts(model, recorded(family, model), hold)


MORE = {
    "grouped queries": ("lm", ["model.attention.heads=4", "model.attention.kv_heads=2"]),
    "side by side": ("lm", ["model.parallel=one-norm", "model.position.kind=rope"]),
    "shared layers": ("lm", ["model.shared=true"]),
    "n-grams": ("encoder", ["model.encoder.ngrams.reach=1", "model.encoder.ngrams.buckets=30"]),
    "narrow tables": ("encoder", ["model.embedding.width=6", "model.embedding.norm=true", "model.head_bias=false"]),
}


@pytest.mark.parametrize("name", MORE)
def test_parts_add_up_for_other_layers(name: str, hold: Hold) -> None:
    family, settings = MORE[name]
    model = model_of(family, "pre", "plain", *settings)
    check_parts(model, recorded(family, model), hold)


def test_a_pooler_is_a_gate(hold: Hold) -> None:
    model = model_of("classifier", "post", "plain", "model.pooling=first", "model.pooler=true")
    found = recorded("classifier", model)
    check_parts(model, found, hold)
    assert "bias pooler" in dict(parts_of(model, found, ROWS[:1], torch.tensor([1])))


@torch.no_grad()
@pytest.mark.parametrize("norm", ["post", "pre", "the lecture's norm"])
def test_wrong_variants_are_rejected(norm: str, hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shifts forgotten; σ of the embedding everywhere; ε on the other side of the root."""
    model = model_of("seq2seq", norm)
    found = recorded("seq2seq", model)
    truth = found.logits[0, ROWS, TOKENS]
    right = parts_of(model, found, ROWS, TOKENS)
    seen = apart(sum(value for _, value in right), truth)  # type: ignore[arg-type]
    unshifted = sum(value for name, value in right if not name.startswith("norm shift"))
    hold(SUM, 1e-5, seen, apart(unshifted, truth))  # type: ignore[arg-type]
    embedded = found.stacks["decoder"].embedding.y[0].double()

    def of_the_lens(module: Any, x: Any, u: Any) -> Any:
        return through_norm(module, embedded, u)

    monkeypatch.setattr("clearhead.inspection.parts.through_norm", of_the_lens)
    elsewhere = sum(value for _, value in parts_of(model, found, ROWS, TOKENS))
    hold(SUM, 1e-5, seen, apart(elsewhere, truth))  # type: ignore[arg-type]
    monkeypatch.undo()
    for part in model.modules():
        if hasattr(part, "eps_place"):
            part.eps_place, part.eps = ("outside", 0.01) if part.eps_place == "inside" else ("inside", 0.01)
    other_side = sum(value for _, value in parts_of(model, found, ROWS, TOKENS))
    hold(SUM, 1e-5, seen, apart(other_side, truth))  # type: ignore[arg-type]


def test_names_of_parts() -> None:
    model = model_of("seq2seq", "post", "plain", "model.layers=1", "model.embedding.output_bias=true")
    names = [name for name, _ in parts_of(model, record(model, SOURCE, TARGET), ROWS, TOKENS)]
    assert names[::-1] == [
        *("embedding", "position"),
        *("decoder.1.attention.1", "decoder.1.attention.2", "bias decoder.1.attention"),
        "norm shift decoder.1.attention",
        *("decoder.1.cross.1", "decoder.1.cross.2", "bias decoder.1.cross", "norm shift decoder.1.cross"),
        *("decoder.1.feedforward", "bias decoder.1.feedforward", "norm shift decoder.1.feedforward"),
        "bias output",
    ]


def test_refusals_say_why() -> None:
    assert "over several tokens" in str(
        why_not(make("encoder", "plain", "model.head=tokens", "model.norm.axis=sequence"))
    )
    assert why_not(make("seq2seq", "statistics over the sequence")) is None, "only the encoder mixes tokens"
    recurrent = make("seq2seq", "luong")
    assert "recurrent" in str(why_not(recurrent))
    with pytest.raises(NoParts, match="no sum"):
        parts_of(recurrent, record(recurrent, SOURCE, TARGET), ROWS, TOKENS)
    assert "vectors" in str(why_not(make("encoder", "plain")))
    assert why_not(make("encoder", "plain", *HEAD)) is None
