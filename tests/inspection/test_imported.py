"""Imported models are looked into by ids; their attention is what transformers itself says (``output_attentions``)."""

from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.inspection import View
from tests.inspection.cases import apart
from tests.inspection.conftest import Hold
from tests.interop import references

SOURCE, TARGET = [5, 9, 33, 7, 11, 30, 3], [17, 6, 33, 21, 2]
KINDS: dict[str, Any] = {
    "Marian": references.marian,
    "BART": references.bart,
    "T5": references.t5,
    "BERT": references.bert_classifier,
    "GPT-2": references.gpt2,
    "DeBERTa v2": references.deberta_v2,
}


def theirs_of(reference: Any, view: View) -> dict[str, Any]:
    """Attention as transformers reports it: stack → layers of (1, h, n, m)."""
    source = None if view.subject.source is None else view.subject.source
    asked = {"output_attentions": True}
    with torch.no_grad():
        if view.subject.family == "seq2seq":
            out = reference(input_ids=source, decoder_input_ids=view.subject.inputs, **asked)
            return {
                "encoder": out.encoder_attentions,
                "decoder": out.decoder_attentions,
                "cross": out.cross_attentions,
                "logits": out.logits,
            }
        out = reference(input_ids=view.subject.inputs if source is None else source, **asked)
    found = {"decoder" if source is None else "encoder": out.attentions}
    return found | ({"logits": out.logits} if hasattr(out, "logits") else {})


@pytest.mark.parametrize("kind", KINDS)
def test_attention_is_that_of_transformers(kind: str, tmp_path: Path, hold: Hold) -> None:
    """Wrong: the heads in another order."""
    reference = references.randomise(KINDS[kind]())
    folder = references.save(reference, tmp_path)
    target = TARGET if kind in ("Marian", "BART", "T5") else [1] if kind == "BERT" else ()
    view = clearhead.look(folder, SOURCE, target)
    theirs = theirs_of(reference, view)
    logits = theirs.pop("logits", None)
    assert set(theirs) == set(view.attention)
    for stack, layers in theirs.items():
        for mine, other in zip(view.attention[stack], layers, strict=True):
            wrong = apart(mine.flip(0), other[0])
            hold("attention of imported models = transformers' output_attentions", 1e-5, apart(mine, other[0]), wrong)
    if logits is None:
        return
    for place, row in enumerate(view.subject.rows):
        if row is None:
            continue
        parts = view.parts(at=place)
        other = logits[0, row] if logits.dim() == 3 else logits[0]
        expected = float(other[view.subject.answer[place]])
        scale = max(1.0, *(abs(part.value) for part in parts.parts))
        hold("Σ parts = transformers' logit (relative to the largest part)", 1e-5, abs(parts.total - expected) / scale)


def test_a_folder_without_tokenizer_answers_no_text_but_shows_itself(tmp_path: Path) -> None:
    folder = references.save(references.randomise(references.gpt2()), tmp_path)
    view = clearhead.look(folder, SOURCE)
    assert view.answer == [str(index) for index in SOURCE]
    assert view.log_probabilities[0] is None
    assert view.as_dict()["model"]["name"] == str(folder)
