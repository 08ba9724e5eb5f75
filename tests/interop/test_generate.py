"""Search against transformers' generate, on an imported model that has learnt a little, and is often unsure."""

from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.interop import load_huggingface
from clearhead.predictor import Engine
from clearhead.recipe import DecodingSpec
from tests.interop import references

LINES, LONGEST = 60, 16


@pytest.fixture(scope="module")
def marian() -> Any:
    """Marian, trained for seconds to copy a line without its even tokens; it is often unsure."""
    torch.manual_seed(0)
    model = references.marian()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    pad, eos = model.config.pad_token_id, model.config.eos_token_id
    for _ in range(150):
        sources = [_source(eos) for _ in range(32)]
        targets = [[token for token in line if token % 2 or token == eos] for line in sources]
        labels = _padded(targets, pad)
        inputs = torch.cat((torch.full((32, 1), pad), labels[:, :-1]), dim=1)
        source = _padded(sources, pad)
        logits = model(input_ids=source, attention_mask=source != pad, decoder_input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=pad)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def _source(eos: int) -> list[int]:
    return [*torch.randint(1, 48, (int(torch.randint(2, 14, ())),)).tolist(), eos]


def _padded(lines: list[list[int]], pad: int) -> torch.Tensor:
    width = max(map(len, lines))
    return torch.tensor([line + [pad] * (width - len(line)) for line in lines])


@pytest.mark.parametrize("beams", [1, 2, 5])
def test_answers_are_those_of_generate(beams: int, marian: Any, tmp_path: Path) -> None:
    """Reference: MarianMTModel.generate, 60 lines, greedy and beams; α = 0, where both stop rules are the same."""
    pad, eos = marian.config.pad_token_id, marian.config.eos_token_id
    engine = Engine(load_huggingface(references.save(marian, tmp_path)).model)
    lines = [_source(eos) for _ in range(LINES)]
    spec = DecodingSpec(beam_size=beams, length_penalty=0.0, max_length=LONGEST)
    ours = [best.tokens for best, *_ in engine.search(lines, spec)]
    theirs = [_generate(marian, line, beams, pad, eos) for line in lines]
    assert ours == theirs
    assert len({len(answer) for answer in ours}) > 6, "answers must end at many lengths"
    if beams > 1:  # the wrong variant: greedy is another search
        assert ours != [best.tokens for best, *_ in engine.search(lines, DecodingSpec(beam_size=1, max_length=LONGEST))]


def _generate(model: Any, line: list[int], beams: int, pad: int, eos: int) -> list[int]:
    with torch.no_grad():
        (found,) = model.generate(
            input_ids=torch.tensor([line]),
            num_beams=beams,
            do_sample=False,
            max_new_tokens=LONGEST,
            bad_words_ids=[[pad]],
            **({"length_penalty": 0.0} if beams > 1 else {}),
        ).tolist()
    answer: list[int] = found[1:]
    return answer[: answer.index(eos)] if eos in answer else [token for token in answer if token != pad]
