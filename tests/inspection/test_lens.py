"""After the last layer both lenses are the model's own output, bit for bit."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.inspection import record
from clearhead.inspection.lens import decoder_logits, layer_logits
from clearhead.inspection.replaying import replaying
from tests.inspection.cases import NORMS, apart, ids, model_of, shaken
from tests.inspection.conftest import Hold
from tests.models.zoo import make

SOURCE, TARGET = ids(1, 6), ids(1, 5, seed=4)


@pytest.mark.parametrize("norm", list(NORMS))
@pytest.mark.parametrize("family", ["seq2seq", "lm", "encoder", "classifier"])
def test_logit_lens(family: str, norm: str, hold: Hold) -> None:
    """Wrong: the layer before the last; and for pre-norm models, no final norm."""
    model = model_of(family, norm)
    source, target = (None if family == "lm" else TARGET), (TARGET if family in ("seq2seq", "lm") else None)
    found = record(model, source, target)
    with replaying(model):
        *_, before, last = layer_logits(model, found)
        raw = found.stacks["decoder" if target is not None else "encoder"].streams[-1]
        bare = model.head(raw.mean(1)) if family == "classifier" else model.output(raw)
    assert torch.equal(last, found.logits)
    hold("logit lens at the last layer = output", 0, apart(last, found.logits), apart(before, found.logits))
    if norm.startswith("pre"):
        hold("logit lens at the last layer = output", 0, apart(last, found.logits), apart(bare, found.logits))


@pytest.mark.parametrize(
    ("variant", "norm"),
    [*(("plain", norm) for norm in NORMS), ("attention linformer", "pre"), ("position shaw", "post")],
)
def test_decoder_lens(variant: str, norm: str, hold: Hold) -> None:
    model = model_of("seq2seq", norm, variant)
    found = record(model, SOURCE, TARGET, off=["encoder.1.1"])
    with replaying(model, off=["encoder.1.1"]):
        layers = list(decoder_logits(model, found))
        (last,) = decoder_logits(model, found, [2])
    assert len(layers) == 3, "the embedding, then every layer"
    assert torch.equal(last, found.logits)
    hold("DecoderLens at the last layer = output", 0, apart(last, found.logits), apart(layers[-2], found.logits))
    hold("DecoderLens of one layer = of all at once", 1e-5, apart(last, layers[-1]))


def test_refusals_say_why() -> None:
    model = shaken(make("seq2seq", "luong"))
    found = record(model, SOURCE, TARGET)
    with pytest.raises(ClearheadError, match="no lens: a recurrent decoder"):
        next(layer_logits(model, found))
    with pytest.raises(ClearheadError, match="no DecoderLens: a recurrent encoder"):
        next(decoder_logits(model, found))
    lm = make("lm", "plain")
    with pytest.raises(ClearheadError, match="no DecoderLens: there is no encoder"):
        next(decoder_logits(lm, record(lm, None, TARGET)))
