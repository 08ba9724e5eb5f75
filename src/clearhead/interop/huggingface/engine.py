"""An exported folder, loaded and run by transformers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.interop.exporting.sample import LONGEST, Sample, SampleBatch, padded_ids
from clearhead.interop.exporting.torch_export import best_places, quiet
from clearhead.interop.exporting.verifying import Doubled, Foreign, doubled
from clearhead.models import EncoderModel, Seq2Seq


@contextmanager
def _no_bar() -> Iterator[None]:
    """Show no bar while weights are loaded."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


class HuggingFaceEngine(Foreign, Doubled):
    """The model of a folder, as ``from_pretrained`` loads it.

    Args:
        folder: the folder.
        sample: the model that it is compared with.
    """

    measure = "logits"

    def __init__(self, folder: Path, sample: Sample) -> None:
        import transformers

        with quiet(), _no_bar():
            config = transformers.AutoConfig.from_pretrained(folder)
            self._foreign: Any = getattr(transformers, config.architectures[0]).from_pretrained(folder).eval()
            # what every answer begins with is not compared, nor how long it may be
            settings = getattr(self._foreign, "generation_config", None)
        if settings is not None:
            settings.forced_bos_token_id = settings.forced_eos_token_id = settings.min_length = None
            settings.suppress_tokens = sample.banned or None
            # nor rules about repetitions, which are part of the search and not of the model
            settings.no_repeat_ngram_size = settings.encoder_no_repeat_ngram_size = settings.bad_words_ids = None
            settings.repetition_penalty = None
        self._model = sample.model
        # transformers' T5 makes a cache of as many layers as the encoder has
        self._cached = getattr(config, "num_decoder_layers", None) in (None, getattr(config, "num_layers", None))

    def values(self, batch: SampleBatch) -> Tensor:
        with torch.no_grad(), quiet():
            if batch.valid is None:
                found = self._foreign(pixel_values=batch.inputs.permute(0, 3, 1, 2))
            elif isinstance(self._model, Seq2Seq):
                found = self._foreign(
                    input_ids=batch.inputs,
                    attention_mask=batch.valid.long(),
                    decoder_input_ids=batch.target,
                    use_cache=False,
                )
            else:
                found = self._foreign(input_ids=batch.inputs, attention_mask=batch.valid.long())
        values: Tensor = found.logits if hasattr(found, "logits") else found.last_hidden_state
        return values

    def exact(self, batch: SampleBatch) -> Tensor:
        with doubled(self._foreign):
            return self.values(batch)

    def answers(self, batch: SampleBatch) -> list[list[int]] | None:
        if batch.answers is None:
            return None
        if isinstance(self._model, EncoderModel):
            return best_places(self.values(batch), batch)
        vocabulary, reads = self._model.spec.vocabulary, isinstance(self._model, Seq2Seq)
        ids, valid = padded_ids(batch.rows, vocabulary.pad or 0, left=not reads)
        with quiet():
            found = self._foreign.generate(
                input_ids=ids,
                attention_mask=valid.long(),
                max_new_tokens=LONGEST,
                num_beams=1,
                do_sample=False,
                use_cache=self._cached,
            )
        rows = found[:, 1 if reads else ids.shape[1] :].tolist()
        return [row[: row.index(vocabulary.eos)] if vocabulary.eos in row else row[:LONGEST] for row in rows]
