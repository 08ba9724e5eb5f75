"""A Hugging Face folder is tuned as it is: its tokenizer, its special tokens, its body; only the head is new."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

import clearhead
from clearhead.data import Pair
from clearhead.models import load_model, stored_tensors
from clearhead.predictor import TextWriter
from clearhead.training import objective_of, reopen
from tests.interop import folders, references, test_raw_text
from tests.interop.references import transformers
from tests.interop.test_heads import MASKED, WORDS, roberta_tokenizer
from tests.training.toy import write_labels

ONE = ["training.threads=1", "training.batch_tokens=128"]


def test_a_masked_encoder_is_tuned_to_label(tmp_path: Path) -> None:
    """RoBERTa, whose padding is 1: lines stand between 0 and 2, as its tokenizer has them, and are padded with 1."""
    folder = references.save(references.randomise(MASKED["RoBERTa"]()), tmp_path / "folder")
    roberta_tokenizer().save(str(folder / "tokenizer.json"))
    rows = [line.split("\t") for line in write_labels(tmp_path / "labels.tsv", 60).read_text().splitlines()]
    texts = [" ".join(f"w{ord(letter) - 90}" for letter in text.split()) for _, text in rows]
    data = [{"label": label, "text": text} for (label, _), text in zip(rows, texts, strict=True)]
    run = clearhead.train(data, tmp_path / "run", start=folder, steps=1, settings=ONE)
    ready = reopen(run.folder)
    inputs = ready.objective.batch(ready.examples, np.arange(len(ready.examples)), 0).inputs
    lines = [[token for token in row if token != 1] for row in inputs.tolist()]
    assert bool((inputs == 1).any())
    assert all(line in [roberta_tokenizer().encode(text).ids for text in texts] for line in lines)
    assert run.model(texts[0]) in ("up", "down")
    began = stored_tensors(load_model(run.folder / "data" / "start.safetensors").model)
    foreign = stored_tensors(clearhead.load_huggingface(folder).model)
    assert all(torch.equal(began[name], foreign[name]) for name in began if name.startswith("encoder."))
    frozen = [*ONE, "training.freeze=encoder.1-2"]
    again = clearhead.train(texts, tmp_path / "gaps", start=folder, steps=1, settings=frozen)
    assert again.recipe.model.family == "encoder"
    assert again.recipe.model.vocabulary.mask == 49


def test_a_language_model_without_padding_is_tuned(tmp_path: Path) -> None:
    """GPT-2 has one special token, which begins and ends: labels of padding are −1, which is no token."""
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=40, bos_token_id=49, eos_token_id=49
    )
    folder = references.save(transformers.GPT2LMHeadModel(config), tmp_path / "folder")
    words = {word: index for index, word in enumerate([*WORDS, "a", "b", "c", "d", "<unk>", "<|endoftext|>"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    lines = [" ".join(f"w{(3 * number + place) % 40}" for place in range(2 + number % 4)) for number in range(60)]
    settings = [*ONE, "training.adapters=lora", "training.adapters.targets=query,up"]
    run = clearhead.train(lines, tmp_path / "run", dev=lines[:5], start=folder, steps=1, settings=settings)
    ready = reopen(run.folder)
    batch = ready.objective.batch(ready.examples, np.arange(20), 0)
    ends = (batch.labels == 49).sum(1)
    assert torch.equal(ends, torch.ones_like(ends))
    assert bool((batch.labels == -1).any())
    assert batch.tokens == int((batch.labels >= 0).sum())
    assert isinstance(run.model("w1 w2"), str)


@pytest.mark.parametrize("name", ["BART", "mBART", "mBART-50", "T5"])
def test_pairs_are_framed_in_training_as_in_answers(name: str, tmp_path: Path) -> None:
    """What a batch holds is what the predictor reads and writes; with our own frame it would be another."""
    whole = test_raw_text.make(name, tmp_path)
    predictor = clearhead.load(whole.file)
    assert isinstance(predictor, TextWriter)
    pairs = [Pair(line, other, 1) for line, other in zip(folders.LINES[:3], folders.LINES[3:6], strict=True)]
    objective = objective_of(predictor.recipe)
    columns = [pair.source for pair in pairs], [pair.target for pair in pairs]
    corpus = cast("Any", SimpleNamespace(train_columns=lambda: [columns], train_size=len(pairs), beside=0))
    objective.write(corpus, (predictor.source, predictor.target), tmp_path)
    examples = objective.open(tmp_path)
    batch = objective.batch(examples, np.arange(3), 0)
    read, _, _ = predictor._encode(columns[0], predictor.recipe.decoding)
    expected = predictor.answer_rows(pairs)
    assert [row[: len(ids)].tolist() for row, ids in zip(batch.source, read, strict=True)] == read
    assert [row[: len(ids)].tolist() for row, ids in zip(batch.labels, expected, strict=True)] == expected
    assert batch.source.shape[1] == max(map(len, read))
    assert examples.sizes_of(np.arange(len(examples)))[0].tolist() == [len(ids) for ids in read]
