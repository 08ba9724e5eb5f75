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


RULES: dict[str, dict[str, Any]] = {
    "no unigram twice": {"no_repeat_ngram_size": 1},
    "no bigram twice": {"no_repeat_ngram_size": 2},
    "no bigram of the source": {"encoder_no_repeat_ngram_size": 2},
    "repetitions penalised": {"repetition_penalty": 1.7},
    "repetitions preferred": {"repetition_penalty": 0.8},
    "sequences": {"banned_sequences": [[3, 3, 3], [3, 1], [5, 9, 11]]},
    "several": {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2, "banned_sequences": [[7, 9]]},
}


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", RULES)
def test_rules_about_repetitions_are_those_of_generate(name: str, beams: int, marian: Any, tmp_path: Path) -> None:
    """Reference: MarianMTModel.generate on lines that say things twice; each rule changes some of the answers."""
    pad, eos = marian.config.pad_token_id, marian.config.eos_token_id
    engine = Engine(load_huggingface(references.save(marian, tmp_path)).model)
    torch.manual_seed(4)
    lines = [[*line[:-1], *line] for line in (_source(eos) for _ in range(30))]
    spec = DecodingSpec(beam_size=beams, length_penalty=0.0, max_length=LONGEST)
    ours = [best.tokens for best, *_ in engine.search(lines, spec.replaced(**RULES[name]))]
    asked = {key: value for key, value in RULES[name].items() if key != "banned_sequences"}
    asked["bad_words_ids"] = [[pad], *RULES[name].get("banned_sequences", [])]
    theirs = [_generate(marian, line, beams, pad, eos, **asked) for line in lines]
    assert ours == theirs
    assert ours != [best.tokens for best, *_ in engine.search(lines, spec)]
    if beams == 1:  # scored, one at a time and streamed: the same answers
        assert ours == [best.tokens for best, *_ in engine.search(lines, spec.replaced(**RULES[name]), scored=True)]
        assert ours[:5] == [list(engine.stream(line, spec.replaced(**RULES[name]))) for line in lines[:5]]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", ["no bigram twice", "repetitions penalised", "sequences"])
def test_prompts_count_as_written(name: str, beams: int, tmp_path: Path) -> None:
    """Reference: GPT2LMHeadModel.generate, which repeats itself without rules."""
    model = references.randomise(references.gpt2(bos_token_id=0, eos_token_id=0), seed=3)
    engine = Engine(load_huggingface(references.save(model, tmp_path)).model)
    draw = torch.Generator().manual_seed(1)
    prompts = [torch.randint(1, 48, (2 + number % 7,), generator=draw).tolist() for number in range(20)]
    spec = DecodingSpec(beam_size=beams, length_penalty=0.0, max_length=10, ban_specials=False)
    ours = [best.tokens for best, *_ in engine.search(prompts, spec.replaced(**RULES[name]))]
    asked = {key: value for key, value in RULES[name].items() if key != "banned_sequences"}
    asked["bad_words_ids"] = RULES[name].get("banned_sequences")
    theirs = []
    for prompt in prompts:
        with torch.no_grad():
            (found,) = model.generate(
                input_ids=torch.tensor([prompt]),
                **{"num_beams": beams, "do_sample": False, "max_new_tokens": 10, "pad_token_id": 0},
                **({"length_penalty": 0.0} if beams > 1 else {}),
                **asked,
            ).tolist()
        answer = found[len(prompt) :]
        theirs.append(answer[: answer.index(0)] if 0 in answer else answer)
    assert ours == theirs
    if name != "sequences":
        assert ours != [best.tokens for best, *_ in engine.search(prompts, spec)]


def test_a_scored_answer_has_the_models_own_log_p(marian: Any, tmp_path: Path) -> None:
    """A penalty chooses tokens; what a greedy answer's score says is what the model gives to it."""
    engine = Engine(load_huggingface(references.save(marian, tmp_path)).model)
    spec = DecodingSpec(beam_size=1, max_length=LONGEST, repetition_penalty=1.7)
    line = _source(marian.config.eos_token_id)
    ((best, *_),) = engine.search([line], spec, scored=True)
    read = torch.tensor([[marian.config.pad_token_id, *best.tokens]])
    written = torch.tensor([*best.tokens, marian.config.eos_token_id])[: len(best.tokens) + best.finished]
    with torch.no_grad():
        log_p = marian(input_ids=torch.tensor([line]), decoder_input_ids=read).logits.log_softmax(-1)[0]
    assert best.log_probability == pytest.approx(float(log_p[range(len(written)), written].sum()), abs=1e-4)


def _generate(model: Any, line: list[int], beams: int, pad: int, eos: int, **settings: Any) -> list[int]:
    with torch.no_grad():
        (found,) = model.generate(
            input_ids=torch.tensor([line]),
            num_beams=beams,
            do_sample=False,
            max_new_tokens=LONGEST,
            **({"bad_words_ids": [[pad]]} | ({"length_penalty": 0.0} if beams > 1 else {}) | settings),
        ).tolist()
    answer: list[int] = found[1:]
    return answer[: answer.index(eos)] if eos in answer else [token for token in answer if token != pad]
