"""The lean stepper computes what the model's own modules compute, for every mechanism that it takes."""

from typing import Any

import pytest
import torch

from clearhead.decoding import ModelStepper, SingleDecoder, lean_decoder, single_decoder
from clearhead.decoding.arranged import Norm
from tests.models.zoo import ORDERED, RECURRENT, VARIANTS, make
from tests.shapes import shapes_are_known

LEFT_TO_THE_MODEL = {"hard", "additive", "multiplicative", "no projections, no W_O", "free sizes"}
LEFT_TO_THE_MODEL |= {"another width out", "another width out, pre"}
LEFT_TO_THE_MODEL |= {"grouped queries", "multi-query", "capped scores, norms on both sides", "rope of some features"}
LEFT_TO_THE_MODEL |= {"norms of q and k times 1 + w"}
LEFT_TO_THE_MODEL |= {"position shaw", "Shaw keys", "Shaw values"} | set(ORDERED) - {"n-grams"}  # of the encoder
LEFT_TO_THE_MODEL |= {variant for variant in RECURRENT if variant != "recurrent to Transformer"}


@pytest.mark.parametrize("variant", [*VARIANTS, *RECURRENT])
@torch.inference_mode()
def test_lean_and_plain_steps_are_equal(variant: str) -> None:
    """Contract 2, with lines that leave, beams that move, multiply and stay, past the first doubling of the buffers."""
    model = make("seq2seq", variant)
    lean = lean_decoder(model)
    if variant in LEFT_TO_THE_MODEL:
        assert lean is None
        return
    assert lean is not None
    source = torch.randint(4, 40, (5, 7))
    source[1, 4:] = source[3, 2:] = 0
    steppers: list[Any] = [lean.reading(source), ModelStepper.reading(model, source, None)]
    generator = torch.Generator().manual_seed(1)
    lines, beams = 5, 1
    for number in range(22):
        ids = torch.randint(0, 40, (lines, beams), generator=generator)
        mine, other = (stepper.step(ids) for stepper in steppers)
        torch.testing.assert_close(mine, other, atol=2e-4, rtol=1e-4)
        kept, parents = torch.arange(lines), torch.arange(beams).expand(lines, beams)
        if number == 4:  # one beam, then three
            shapes_are_known()
        if number == 2:
            parents, beams = torch.zeros(lines, 3, dtype=torch.long), 3
        elif number in (9, 18):
            kept, lines = torch.tensor([3, 0, 2, 1][: lines - 1]), lines - 1
            parents = torch.randint(0, beams, (lines, beams), generator=generator)
        elif number % 4 == 0:
            parents = torch.randint(0, beams, (lines, beams), generator=generator)
        for stepper in steppers:
            stepper.keep(kept, parents)
    # the wrong variant: lines in another order must be noticed
    ids = torch.randint(0, 40, (lines, beams), generator=generator)
    steppers[0].keep(torch.arange(lines).flip(0), None)
    assert not torch.allclose(steppers[0].step(ids), steppers[1].step(ids), atol=1e-2)


def test_new_weights_and_watched_weights_are_noticed() -> None:
    """Weights laid out before they changed are not used again, nor past somebody who watches attention."""
    model = make("seq2seq", "plain")
    lean = lean_decoder(model)
    assert lean is not None
    assert lean.current()
    handle = model.decoder.layers[0].attention.weights.register_forward_hook(lambda *_: None)
    assert not lean.current()
    assert lean_decoder(model) is None
    handle.remove()
    assert lean.current()
    with torch.no_grad():
        model.decoder.layers[0].feedforward.up.weight.add_(1.0)
    assert not lean.current()


@pytest.mark.parametrize("variant", ["position t5", "position alibi"])
@torch.inference_mode()
def test_one_line_with_a_bias_of_distances(variant: str) -> None:
    """Queries and keys of a single line that nothing rotates are not copied onto themselves."""
    model = make("seq2seq", variant)
    lean, source = lean_decoder(model), torch.randint(4, 40, (1, 7))
    assert lean is not None
    steppers: list[Any] = [lean.reading(source), ModelStepper.reading(model, source, None)]
    for token in (5, 9, 30):
        mine, other = (stepper.step(torch.tensor([[token]])) for stepper in steppers)
        torch.testing.assert_close(mine, other, atol=2e-4, rtol=1e-4)


def test_capped_logits_are_left_to_the_model() -> None:
    """The fast decoder multiplies by the output matrix itself, and would leave the cap out."""
    assert lean_decoder(make("seq2seq", "plain")) is not None
    assert lean_decoder(make("seq2seq", "plain", "model.embedding.output_cap=2.0")) is None


BY_NUMPY = {"plain", "post norm", "no √d", "other heads across", "position learned", "position none"}
BY_NUMPY |= {"feedforward gated", "position rope", "rope slowed down", "rope across", "rope in neighbours, and across"}
"""Variants of the zoo that the stepper for one line must take: were it to take none, nothing would be compared."""


def single(variant: str, *overrides: str) -> tuple[Any, SingleDecoder | None]:
    """A model, and its decoder for one line if it has one."""
    model = make("seq2seq", variant, *overrides)
    lean = lean_decoder(model)
    return model, None if lean is None else single_decoder(lean)


@pytest.mark.parametrize("variant", [*VARIANTS, *RECURRENT])
@torch.inference_mode()
def test_one_line_by_numpy_is_the_model_s_own(variant: str) -> None:
    """Contract 2, past the first doubling of the buffers, with padding in the source."""
    model, decoder = single(variant)
    if decoder is None:
        assert variant not in BY_NUMPY
        return
    for source in (torch.randint(4, 40, (1, 7)), torch.tensor([[5, 6, 7, 2, 0, 0]])):
        steppers: list[Any] = [decoder.reading(source), ModelStepper.reading(model, source, None)]
        for token in torch.randint(0, 40, (70 if variant == "plain" else 5,)).tolist():
            mine, other = (stepper.step(torch.tensor([[token]])) for stepper in steppers)
            torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
            for stepper in steppers:
                stepper.keep(torch.tensor([0]), None)
    with pytest.raises(ValueError, match="this stepper has one line"):
        steppers[0].keep(torch.tensor([0, 0]))


@pytest.mark.parametrize("variant", [*VARIANTS, *RECURRENT])
@torch.inference_mode()
def test_beams_of_one_line_by_numpy_are_the_model_s_own(variant: str) -> None:
    """Contract 2, with beams that multiply twice, move, merge and stay, past the first doubling of the buffers."""
    model, decoder = single(variant)
    if decoder is None:
        return
    source = torch.randint(4, 40, (1, 7))
    steppers: list[Any] = [decoder.reading(source), ModelStepper.reading(model, source, None)]
    generator, beams = torch.Generator().manual_seed(1), 1
    for number in range(70 if variant == "plain" else 12):
        ids = torch.randint(0, 40, (1, beams), generator=generator)
        mine, other = (stepper.step(ids) for stepper in steppers)
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
        more = {1: 2, 3: 4}.get(number, beams)
        parents = torch.randint(0, beams, (1, more), generator=generator)
        if more == beams and number % 3 == 0:
            parents = torch.arange(beams)[None]
        beams = more
        for stepper in steppers:
            stepper.keep(torch.tensor([0]), parents)
    # the wrong variant: beams that follow other parents must be noticed
    ids = torch.randint(0, 40, (1, beams), generator=generator)
    for stepper, other in zip(steppers, ([[0, 1, 2, 3]], [[3, 3, 3, 3]]), strict=True):
        stepper.keep(torch.tensor([0]), torch.tensor(other))
    assert not torch.allclose(steppers[0].step(ids), steppers[1].step(ids), atol=1e-3)


@torch.inference_mode()
def test_one_line_by_numpy_has_biases_gains_and_an_output_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that a new model has at 0 or 1, and a norm without its shift, which must be noticed."""
    for place, net in (("pre", "standard"), ("post", "gated")):
        sizes = [f"model.norm.place={place}", f"model.feedforward.kind={net}", "model.feedforward.activation=relu"]
        model, _ = single("plain", *sizes, "model.embedding.output_bias=true")
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.empty_like(parameter).normal_(0, 0.3))
        source, token = torch.randint(4, 40, (1, 7)), torch.tensor([[9]])
        wanted = ModelStepper.reading(model, source, None).step(token)

        def found(model: Any = model, source: Any = source, token: Any = token) -> Any:
            lean = lean_decoder(model)
            decoder = None if lean is None else single_decoder(lean)
            assert decoder is not None
            return decoder.reading(source).step(token).clone()

        torch.testing.assert_close(found(), wanted, atol=1e-5, rtol=1e-5)
        right = Norm.__init__

        def without_shift(self: Any, norm: Any, right: Any = right) -> None:
            right(self, norm)
            self.shift = self.shift * 0

        with monkeypatch.context() as wrong:
            wrong.setattr(Norm, "__init__", without_shift)
            assert not torch.allclose(found(), wanted, atol=1e-3)
