"""Heads come along: masked tokens are filled in as transformers does, classes keep their names, the rest is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

import clearhead
from clearhead.errors import UnsupportedModel
from clearhead.interop import import_huggingface, load_huggingface
from clearhead.models import EncoderModel, load_model, save_model
from tests.cli.typed import typed
from tests.interop import references
from tests.interop.references import transformers
from tests.interop.test_parity import SOURCE, TOLERANCE, with_pad
from tests.interop.test_refusals import edit_config

MASKED: dict[str, Callable[[], Any]] = {
    "BERT": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**references.ENCODER_SIZES)),
    "BERT, pre-training": lambda: transformers.BertForPreTraining(
        transformers.BertConfig(**references.ENCODER_SIZES, hidden_act="gelu_new")
    ),
    "RoBERTa": lambda: transformers.RobertaForMaskedLM(
        transformers.RobertaConfig(**references.ENCODER_SIZES, hidden_act="relu")
    ),
    "DistilBERT": lambda: transformers.DistilBertForMaskedLM(references.distilbert().config),
    "DeBERTa": lambda: transformers.DebertaForMaskedLM(references.deberta().config),
    "DeBERTa v2": lambda: transformers.DebertaV2ForMaskedLM(references.deberta_v2().config),
}


@pytest.mark.parametrize("name", MASKED)
def test_heads_for_masked_tokens_agree(name: str, tmp_path: Path) -> None:
    """References: transformers' BertForMaskedLM and its relatives; a head without its transform is rejected."""
    reference = references.randomise(MASKED[name]())
    saved = load_huggingface(references.save(reference, tmp_path / "folder"))
    save_model(saved, tmp_path / "model.safetensors")
    model = load_model(tmp_path / "model.safetensors").model
    assert isinstance(model, EncoderModel)
    assert model.output is not None
    pad = model.spec.vocabulary.pad
    assert pad is not None
    ids = with_pad(SOURCE, pad)
    there = ids != pad
    with torch.no_grad():
        theirs = reference(input_ids=ids, attention_mask=there)
        logits = theirs.prediction_logits if "pre-training" in name else theirs.logits
        hidden = reference.base_model(input_ids=ids, attention_mask=there).last_hidden_state
        assert float((model.output(hidden) - logits)[there].abs().max()) < TOLERANCE
        torch.testing.assert_close(model.output(model.states(ids))[there], logits[there], atol=1e-4, rtol=1e-5)
        transform, model.output.transform = model.output.transform, None
        assert float((model.output(hidden) - logits)[there].abs().max()) > 0.1
    assert transform is not None


def test_classes_keep_their_names(tmp_path: Path) -> None:
    for number, make in enumerate((references.bert_classifier, references.roberta_classifier)):
        folder = tmp_path / str(number)
        names = dict(enumerate(["anger", "joy", "fear", "calm", "love"]))
        references.save(make(id2label=names, label2id={name: index for index, name in names.items()}), folder)
        spec: Any = load_huggingface(folder).recipe.model
        assert spec.labels == list(names.values())
    edit_config(folder, id2label={"0": "one"})
    imported = import_huggingface(folder)
    spec = imported.saved.recipe.model
    assert spec.labels == []
    assert "id2label: does not give each of 5 classes a name of its own" in imported.left_behind


def test_what_is_left_behind_is_named(tmp_path: Path) -> None:
    references.save(references.randomise(MASKED["BERT, pre-training"]()), tmp_path / "bert")
    edit_config(
        tmp_path / "bert", my_note="trained on Tuesday", use_bfloat16=False, eos_token_ids=[3], torchscript=False
    )
    done = typed("import", str(tmp_path / "bert"), "-o", str(tmp_path / "bert.safetensors"))
    assert done.returncode == 0, done.stderr
    assert "left behind: my_note = 'trained on Tuesday': a note, not a setting of the network" in done.stdout
    assert "left behind: weight cls.seq_relationship.weight" in done.stdout
    assert "cls.predictions.transform" not in done.stdout


@pytest.mark.parametrize("value", [7, {"bits": [4]}, True, "tanh"])
def test_unknown_settings_can_be_ignored_by_name(value: Any, tmp_path: Path) -> None:
    folder = references.save(references.bert(), tmp_path)
    edit_config(folder, new_trick=value)
    with pytest.raises(UnsupportedModel, match=r"does not know the settings: new_trick = .*--ignore new_trick"):
        load_huggingface(folder)
    assert load_huggingface(folder, ignore=["new_trick"]).recipe.model.family == "encoder"
    assert import_huggingface(folder, ignore=["new_trick"]).left_behind[0].startswith("new_trick = ")
    with pytest.raises(UnsupportedModel, match=r"--ignore new_trik: .* has no such setting; did you mean new_trick\?"):
        load_huggingface(folder, ignore=["new_trik"])


def test_what_changes_the_mathematics_cannot_be_ignored(tmp_path: Path) -> None:
    folder = references.save(references.bert(), tmp_path)
    edit_config(folder, is_decoder=True)
    with pytest.raises(UnsupportedModel, match="is_decoder = True is not supported"):
        load_huggingface(folder, ignore=["is_decoder"])


WORDS = [f"w{number}" for number in range(44)]


def bert_tokenizer() -> Tokenizer:
    specials = ["[PAD]", "x", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: index for index, word in enumerate([*specials, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 4), ("[CLS]", 3))
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in specials if name != "x"])
    return tokenizer


def roberta_tokenizer() -> Tokenizer:
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    words = [*specials, *(f"Ġ{word}" for word in WORDS), "x", "<mask>"]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # letters and digits stay together
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, lstrip=name == "<mask>") for name in [*specials, "<mask>"]]
    )
    return tokenizer


@pytest.mark.parametrize(
    ("name", "make", "mask"), [("BERT", bert_tokenizer, "[MASK]"), ("RoBERTa", roberta_tokenizer, "<mask>")]
)
def test_imported_encoders_fill_masks(name: str, make: Callable[[], Tokenizer], mask: str, tmp_path: Path) -> None:
    """Reference: transformers' model on its own tokenizer's ids, the best token that is no special."""
    reference = references.randomise(MASKED[name]())
    folder = references.save(reference, tmp_path / "folder")
    make().save(str(folder / "tokenizer.json"))
    file = tmp_path / "model.safetensors"
    assert typed("import", str(folder), "-o", str(file)).returncode == 0
    lines = [f"w3 {mask} w5", f"{mask} w9 w9 w2", f"w1 w2 w30 {mask}"]
    answers = clearhead.load(file).generate(lines)
    for line, answer in zip(lines, answers, strict=True):
        ids = make().encode(line).ids
        with torch.no_grad():
            logits = reference(input_ids=torch.tensor([ids])).logits[0, ids.index(make().token_to_id(mask) or 0)]
        specials = [index for index, token in make().get_added_tokens_decoder().items() if token.special]
        logits[specials] = -torch.inf
        best = make().decode([int(logits.argmax())]).strip()
        assert answer == line.replace(mask, best)
    assert load_model(file).recipe.model.vocabulary.mask == make().token_to_id(mask)


def test_a_panic_over_a_tokenizer_is_reported(tmp_path: Path) -> None:
    folder = references.save(references.bert(), tmp_path)
    table = {"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}}
    (folder / "tokenizer.json").write_text(json.dumps(table))
    done = typed("import", str(folder), "-o", str(tmp_path / "x.safetensors"))
    assert done.returncode == 0
    assert "without a tokenizer" in done.stdout
    assert "left behind: tokenizer: " in done.stdout
    assert "is not a tokenizer" in done.stdout
