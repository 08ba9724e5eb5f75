"""Settings of generate become settings of [decoding]; what has no counterpart is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import DataError
from clearhead.interop.huggingface.generation import Generation, read_generation, written_generation
from clearhead.recipe import DecodingSpec


def read(stated: dict[str, Any], folder: Path, family: str = "seq2seq") -> Generation:
    (folder / "generation_config.json").write_text(json.dumps(stated))
    return read_generation(folder, {}, family)


@pytest.mark.parametrize(
    ("family", "stated", "decoding"),
    [
        ("seq2seq", {}, {"ban_specials": False, "beam_size": 1}),
        ("seq2seq", {"num_beams": 4}, {"beam_size": 4, "length_penalty": 1.0}),
        ("seq2seq", {"num_beams": 4, "length_penalty": 2}, {"beam_size": 4, "length_penalty": 2.0}),
        ("seq2seq", {"max_length": 20}, {"max_length": 19}),
        ("seq2seq", {"max_length": 20, "forced_eos_token_id": 2}, {"max_length": 18}),
        ("seq2seq", {"max_length": 20, "max_new_tokens": 7}, {"max_length": 7}),
        ("seq2seq", {"min_length": 5}, {"min_length": 4}),
        ("lm", {"min_new_tokens": 5, "max_new_tokens": 4}, {"min_length": 4, "max_length": 4}),
        ("seq2seq", {"bad_words_ids": [[7]], "suppress_tokens": [3, 7]}, {"banned": [3, 7]}),
        ("seq2seq", {"bad_words_ids": [[7, 8], [9]]}, {"banned": [9], "banned_sequences": [[7, 8]]}),
        ("seq2seq", {"no_repeat_ngram_size": 3, "encoder_no_repeat_ngram_size": 4, "repetition_penalty": 1.2},
         {"no_repeat_ngram_size": 3, "encoder_no_repeat_ngram_size": 4, "repetition_penalty": 1.2}),
        ("lm", {"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1}, {}),
        ("seq2seq", {"forced_bos_token_id": 9}, {"prefix": [9]}),
        ("lm", {"forced_bos_token_id": 9}, {}),
        ("lm", {"do_sample": True, "top_k": 5, "top_p": 0.9, "temperature": 0.7},
         {"sample": True, "top_k": 5, "top_p": 0.9, "temperature": 0.7}),
        ("lm", {"do_sample": True}, {"sample": True, "top_k": 50}),
        ("lm", {"do_sample": True, "top_k": 0, "min_p": 0.0}, {"sample": True}),
        ("lm", {"do_sample": False, "top_k": 5, "temperature": 0.7}, {}),
        ("lm", {"do_sample": False, "min_p": 0.1, "early_stopping": True, "guidance_scale": 1}, {}),
    ],
)  # fmt: skip
def test_settings(family: str, stated: dict[str, Any], decoding: dict[str, Any], tmp_path: Path) -> None:
    found = read(stated, tmp_path, family)
    assert found.decoding == {"ban_specials": False, "beam_size": 1} | decoding
    assert found.notes == []


@pytest.mark.parametrize(
    ("family", "stated", "note"),
    [
        ("lm", {"encoder_no_repeat_ngram_size": 3}, "encoder_no_repeat_ngram_size = 3: clearhead has no such rule for"),
        ("lm", {"repetition_penalty": -1.2}, "repetition_penalty = -1.2: must be above 0"),
        ("lm", {"encoder_repetition_penalty": 1.2}, "encoder_repetition_penalty = 1.2: clearhead has no such rule"),
        ("lm", {"max_length": 50}, "counts the prompt, too; set decoding.max_length"),
        ("seq2seq", {"bad_words_ids": [[7, "x"]]}, "is no list of token ids"),
        ("lm", {"eos_token_id": [1, 2]}, "answers end at 1 alone"),
        ("lm", {"do_sample": True, "min_p": 0.1}, "min_p = 0.1: clearhead has no such rule"),
        ("lm", {"do_sample": True, "epsilon_cutoff": 0.1}, "epsilon_cutoff = 0.1"),
        ("lm", {"do_sample": True, "eta_cutoff": 0.1}, "eta_cutoff = 0.1"),
        ("lm", {"guidance_scale": 2.0}, "guidance_scale = 2.0"),
        ("lm", {"stop_strings": ["."]}, "stop_strings = ['.']"),
        ("seq2seq", {"num_beams": 2, "early_stopping": True}, "early_stopping = True"),
        ("seq2seq", {"num_beams": 2, "length_penalty": -1.0}, "length_penalty = -1.0: must be from 0 to 100"),
    ],
)
def test_what_has_no_counterpart_is_named(family: str, stated: dict[str, Any], note: str, tmp_path: Path) -> None:
    (found,) = read(stated, tmp_path, family).notes
    assert note in found


@pytest.mark.parametrize("name", ["suppress_tokens", "bad_words_ids"])
def test_a_list_that_is_none_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"config\.json: {name} = 5 should be a list"):
        read_generation(tmp_path, {name: 5}, "lm")
    with pytest.raises(DataError, match=rf"generation_config\.json: {name} = 5 should be a list"):
        read({name: 5}, tmp_path)


def test_its_own_file_wins_over_the_configuration(tmp_path: Path) -> None:
    config = {"num_beams": 6, "decoder_start_token_id": 3}
    assert read_generation(tmp_path, config, "seq2seq").decoding["beam_size"] == 6
    found = read({"num_beams": 2, "decoder_start_token_id": 5, "eos_token_id": 4}, tmp_path)
    assert found.decoding["beam_size"] == 2
    assert found.vocabulary == {"start": 5, "eos": 4}
    assert read_generation(tmp_path, config, "encoder") == Generation()
    (tmp_path / "generation_config.json").write_text("[]")
    with pytest.raises(DataError, match="is not a table of settings"):
        read_generation(tmp_path, config, "seq2seq")


def test_rules_about_repetitions_are_written_out_again(tmp_path: Path) -> None:
    stated: dict[str, Any] = {"no_repeat_ngram_size": 3, "encoder_no_repeat_ngram_size": 4, "repetition_penalty": 1.2}
    stated["bad_words_ids"] = [[7, 8]]
    spec = DecodingSpec(**read(stated, tmp_path).decoding)
    assert written_generation(spec, family="seq2seq") == {"num_beams": 1} | stated
    assert written_generation(DecodingSpec(beam_size=1), family="seq2seq") == {"num_beams": 1}
