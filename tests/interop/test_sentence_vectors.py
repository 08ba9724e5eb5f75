"""Sentence vectors of imported encoders: those of the pooling that sentence-transformers defines, over any path."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError
from clearhead.interop import import_huggingface
from clearhead.interop.exporting import make_sample, onnx, onnx_answer
from clearhead.models import SavedModel
from clearhead.predictor.vectors import pooled
from tests.cli.typed import typed
from tests.interop import folders, references

LINES = [*folders.LINES[:6], "the sun", "Ünïcödé 🙂"]


def make(
    folder: Path, *, pooling: dict[str, Any] | None, steps: tuple[str, ...] = ("Transformer", "Pooling")
) -> tuple[Any, Any]:
    """A folder as sentence-transformers saves it; returns transformers' model and tokenizer."""
    folders.make_tokenizer("BERT", folder)
    tokenizer = folders.auto_tokenizer(folder)
    model = references.randomise(references.bert(vocab_size=len(tokenizer), max_position_embeddings=64))
    model.save_pretrained(folder)
    modules = []
    for number, kind in enumerate(steps):
        path = "" if kind == "Transformer" else f"{number}_{kind}"
        modules.append(
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        )
        (folder / path).mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return model, tokenizer


def expected_vectors(model: Any, tokenizer: Any, way: str, *, normalized: bool) -> torch.Tensor:
    """Reference: transformers' states, pooled over the attention mask in one padded batch."""
    asked = tokenizer(LINES, return_tensors="pt", padding=True)
    with torch.no_grad():
        states = model(**asked).last_hidden_state
    mask = asked["attention_mask"][:, :, None].float()
    found = {
        "mean": (states * mask).sum(1) / mask.sum(1),
        "cls": states[:, 0],
        "max": states.masked_fill(mask == 0, -torch.inf).amax(1),
    }[way]
    return torch.nn.functional.normalize(found, dim=1) if normalized else found


@pytest.mark.parametrize(
    ("way", "pooling"),
    [
        ("mean", {"word_embedding_dimension": 48, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}),
        ("cls", {"word_embedding_dimension": 48, "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}),
        ("max", {"embedding_dimension": 48, "pooling_mode": "max"}),
    ],
)
@pytest.mark.parametrize("normalized", [True, False])
def test_vectors_are_pooled_as_the_folder_says(
    way: str, pooling: dict[str, Any], normalized: bool, tmp_path: Path
) -> None:
    steps = ("Transformer", "Pooling", *(("Normalize",) if normalized else ()))
    reference = make(tmp_path, pooling=pooling, steps=steps)
    model = clearhead.load(tmp_path)
    expected = expected_vectors(*reference, way, normalized=normalized)
    torch.testing.assert_close(model.vectors(LINES), expected, atol=1e-5, rtol=1e-5)
    other = model.answering(pooling="cls" if way != "cls" else "mean", normalize=normalized)
    assert not torch.allclose(other.vectors(LINES), expected, atol=1e-2)  # the wrong variant
    assert (model.answering(normalize=not normalized).vectors(LINES) - expected).abs().max() > 1e-2


def test_pooling_goes_out_again(tmp_path: Path) -> None:
    """To Hugging Face as sentence-transformers reads it, and to the program beside ONNX graphs."""
    there, back = tmp_path / "there", tmp_path / "back"
    there.mkdir()
    make(there, pooling={"pooling_mode_cls_token": True}, steps=("Transformer", "Pooling", "Normalize"))
    (there / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    clearhead.export_model(there, "huggingface", back, lines=LINES)
    mine, again = clearhead.load(there), clearhead.load(back)
    decoding = again.recipe.decoding
    assert (decoding.pooling, decoding.normalize, decoding.max_source) == ("cls", True, 10)
    assert decoding == mine.recipe.decoding
    torch.testing.assert_close(again.vectors(LINES), mine.vectors(LINES), atol=0, rtol=0)
    states = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
    for changes in ({}, {"pooling": "mean"}, {"pooling": "max", "normalize": False}):
        spec = mine.decoding(**changes)
        saved = SavedModel(mine.model, mine.recipe.updated(decoding=spec), mine.tokenizers)
        about = onnx._about(make_sample(saved), (), [])
        np.testing.assert_allclose(onnx_answer.pooled(states.numpy(), about), pooled(states, spec).numpy(), atol=1e-6)


def test_run_gives_vectors_of_lines(tmp_path: Path) -> None:
    make(tmp_path, pooling={"pooling_mode_mean_tokens": True}, steps=("Transformer", "Pooling", "Normalize"))
    file, lines = tmp_path / "model.safetensors2.safetensors", tmp_path / "lines.txt"
    assert typed("import", str(tmp_path), "-o", str(file)).returncode == 0
    lines.write_text("\n".join([*LINES, ""]) + "\n", encoding="utf-8")  # the last line is empty, and has a vector, too
    expected = clearhead.load(file).vectors([*LINES, ""]).numpy()

    shown = [json.loads(row) for row in typed("run", str(file), str(lines), "--vectors").stdout.splitlines()]
    assert [row["text"] for row in shown] == [*LINES, ""]
    np.testing.assert_allclose([row["vector"] for row in shown], expected, atol=1e-6)

    array = tmp_path / "lines.npy"
    assert typed("run", str(file), str(lines), "--vectors", "-o", str(array)).returncode == 0
    found = np.load(array, allow_pickle=False)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert typed("run", str(file), str(lines), "--vectors", "-o", str(array)).returncode == 1  # it exists
    table = tmp_path / "lines.jsonl"
    assert clearhead.vector_file(file, lines, table) == len(LINES) + 1
    assert [json.loads(row) for row in table.read_text().splitlines()] == shown
    # the most similar line to a line is itself, by the dot product of normalized vectors
    assert (found @ found.T).argmax(1).tolist() == list(range(len(found)))


def test_what_vectors_cannot_do_is_said(tmp_path: Path) -> None:
    make(tmp_path, pooling={"pooling_mode_mean_tokens": True})
    lines = tmp_path / "lines.txt"
    lines.write_text("a\n")
    done = typed("run", str(tmp_path), str(lines), "--vectors", "--n-best", "3")
    assert done.returncode == 2
    assert "--vectors gives none" in done.stderr
    with pytest.raises(ClearheadError, match=r"something\.npy or something\.jsonl"):
        clearhead.vector_file(tmp_path, lines, tmp_path / "vectors.txt")
    for command in ("run", "score", "eval"):
        done = typed(command, str(tmp_path), str(lines))
        assert done.returncode == 1
        assert done.stderr.startswith("this encoder gives vectors only (run --vectors)")


def test_steps_that_clearhead_lacks_are_named(tmp_path: Path) -> None:
    two = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}
    make(tmp_path, pooling=two, steps=("Transformer", "Pooling", "Dense"))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 12, "do_lower_case": true}')
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    imported = import_huggingface(tmp_path)
    assert any("module Dense: clearhead has no such step" in what for what in imported.left_behind)
    assert any("vectors are means" in what for what in imported.left_behind)
    assert any("do_lower_case = True" in what for what in imported.left_behind)
    assert any("default_prompt_name = query: clearhead puts no prompt" in what for what in imported.left_behind)
    assert imported.saved.recipe.decoding.max_source == 10  # [CLS] and [SEP] are two more


def test_the_model_may_stand_in_a_folder_of_its_own(tmp_path: Path) -> None:
    inner = tmp_path / "0_Transformer"
    inner.mkdir()
    folders.make_tokenizer("BERT", inner)
    references.bert(vocab_size=len(folders.word_pieces())).save_pretrained(inner)
    steps = [{"path": "0_Transformer", "type": "x.Transformer"}, {"path": "1_Normalize", "type": "x.Normalize"}]
    (tmp_path / "modules.json").write_text(json.dumps(steps))
    imported = import_huggingface(tmp_path).saved
    assert imported.tokenizers
    assert imported.recipe.decoding.normalize
