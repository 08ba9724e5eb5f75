"""Imported models on raw text: `clearhead run` answers as transformers does, with tokenizer, model and settings."""

import json
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import clearhead
from clearhead.errors import RecipeError
from clearhead.interop import import_huggingface
from clearhead.interop.exporting import make_sample, onnx
from clearhead.models import load_model
from clearhead.predictor import Predictor, TextWriter
from clearhead.serving import work
from tests.cli.typed import typed
from tests.interop import folders, references
from tests.interop.references import transformers

pytestmark = pytest.mark.filterwarnings("ignore::clearhead.UnknownCharacters")
"""Small vocabularies lack some characters of the questions; tests/interop/test_tokenizers.py asks which are named."""
QUESTIONS = [
    *folders.LINES[::3],
    "the sun",
    "A naïve café, e\u0301 and ½ 🙂",
    "children <unk> walk </s> home",
    "Brot!",
    "winter  river",
]


class Whole(NamedTuple):
    """A folder as transformers reads it, and the model file that it became."""

    tokenizer: Any
    model: Any
    folder: Path
    file: Path
    answered: dict[str, str]
    """Answers by the folder's own settings, which several tests compare with."""

    def right(self, lines: Sequence[str]) -> list[str]:
        """The answers by the folder's own settings."""
        for line in lines:
            self.answered[line] = self.answered.get(line) or self.generate(line)
        return [self.answered[line] for line in lines]

    def generate(self, line: str, **settings: Any) -> str:
        """model.generate + tokenizer.decode."""
        asked = self.tokenizer(line, return_tensors="pt")
        asked.pop("token_type_ids", None)
        with torch.no_grad():
            found = self.model.generate(**asked, **settings)[0]
        written = found if self.model.config.is_encoder_decoder else found[asked["input_ids"].shape[1] :]
        text: str = self.tokenizer.decode(written, skip_special_tokens=True)
        return " ".join(text.splitlines())


def marian(tokenizer: Any, size: int) -> Any:
    ids = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1, "forced_eos_token_id": 0}
    model = references.randomise(references.marian(vocab_size=size, **ids))
    model.generation_config.update(max_length=14, num_beams=1, bad_words_ids=[[size - 1]])
    return model


def bart(tokenizer: Any, size: int) -> Any:
    model = references.randomise(references.bart(vocab_size=size), seed=5)
    model.generation_config.update(
        **{"max_length": 14, "min_length": 4, "forced_bos_token_id": 0, "forced_eos_token_id": 2},
        **{"suppress_tokens": [3, 50], "no_repeat_ngram_size": 2},
    )
    return model


def mbart(tokenizer: Any, size: int) -> Any:
    start = tokenizer.convert_tokens_to_ids("ro_RO")
    model = references.randomise(references.mbart(vocab_size=size, decoder_start_token_id=start), seed=5)
    model.generation_config.update(max_new_tokens=12)
    return model


def mbart50(tokenizer: Any, size: int) -> Any:
    """The language of an answer is its first token, as for NLLB and M2M100."""
    model = references.randomise(references.mbart(vocab_size=size, decoder_start_token_id=2), seed=7)
    forced = tokenizer.convert_tokens_to_ids("ro_RO")
    model.generation_config.update(max_new_tokens=12, forced_bos_token_id=forced)
    return model


def many_languages(tokenizer: Any, size: int, *, language: str) -> Any:
    """M2M100 and NLLB: </s> is fed first, and the language of the answer is its first token."""
    model = references.randomise(references.m2m100(vocab_size=size), seed=9)
    forced = tokenizer.convert_tokens_to_ids(language)
    assert forced != tokenizer.unk_token_id
    # padding in an answer has no position there, and trained models never write it
    model.generation_config.update(max_length=14, forced_bos_token_id=forced, suppress_tokens=[1])
    return model


def t5(tokenizer: Any, size: int) -> Any:
    model = references.randomise(references.t5(vocab_size=size + 4, num_layers=3), seed=8)
    model.generation_config.update(max_new_tokens=12, decoder_start_token_id=0)
    return model


def gpt2(tokenizer: Any, size: int) -> Any:
    model = references.randomise(references.gpt2(vocab_size=size, bos_token_id=0, eos_token_id=0))
    model.generation_config.update(max_new_tokens=10, pad_token_id=0)
    return model


def bloom(tokenizer: Any, size: int) -> Any:
    model = references.randomise(references.bloom(vocab_size=size, bos_token_id=0, eos_token_id=0, pad_token_id=3))
    model.generation_config.update(max_new_tokens=10)
    return model


WHOLE: dict[str, tuple[str, Callable[[Any, int], Any]]] = {
    "Marian": ("Marian", marian),
    "BART": ("BART", bart),
    "mBART": ("mBART", mbart),
    "mBART-50": ("mBART", mbart50),
    "NLLB": ("NLLB", partial(many_languages, language="deu_Latn")),
    "M2M100": ("M2M100", partial(many_languages, language="__de__")),
    "T5": ("T5", t5),
    "GPT-2": ("GPT-2", gpt2),
    "Bloom": ("Bloom", bloom),
}


def varied(model: Any) -> Any:
    """The same model with larger maps, without biases, and embeddings of one length: its answers depend on the text."""
    table = model.get_input_embeddings().weight
    with torch.no_grad():
        table.div_(table.norm(dim=1, keepdim=True))
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 and name.endswith("bias"):
                parameter.zero_()
            elif parameter.dim() == 2 and parameter is not table and "embed" not in name:
                parameter.mul_(3)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.zero_()
    return model.eval()


def make(name: str, folder: Path) -> Whole:
    tokenizer_name, build = WHOLE[name]
    folders.make_tokenizer(tokenizer_name, folder)
    tokenizer = folders.auto_tokenizer(folder)
    model = varied(build(tokenizer, len(tokenizer)))
    model.save_pretrained(folder)
    file = folder / "imported.safetensors"
    done = typed("import", str(folder), "-o", str(file))
    assert done.returncode == 0, done.stderr
    assert "with its tokenizer" in done.stdout
    return Whole(tokenizer, model, folder, file, {})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    kept: dict[str, Whole] = {}
    return lambda name: kept.get(name) or kept.setdefault(name, make(name, tmp_path_factory.mktemp("folder")))


@pytest.mark.parametrize("name", list(WHOLE))
def test_run_answers_as_generate_does(name: str, made: Callable[[str], Whole], tmp_path: Path) -> None:
    whole = made(name)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(QUESTIONS) + "\n", encoding="utf-8")
    done = typed("run", str(whole.file), str(lines), "--threads", "1")
    assert done.returncode == 0, done.stderr
    expected = whole.right(QUESTIONS)
    assert done.stdout.splitlines() == expected
    assert len(set(expected)) > 4, "answers must differ"


@pytest.mark.parametrize("name", ["BART", "GPT-2"])
def test_a_server_answers_as_generate_does(name: str, made: Callable[[str], Whole]) -> None:
    """What a worker of `clearhead serve` does with an imported model: whole answers, and the same in pieces."""
    whole = made(name)
    predictor, lines = clearhead.load(whole.file), QUESTIONS[:4]
    asked = {"n_best": 1, "details": False, "verbatim": True, "settings": {}}
    reply = work.answer(predictor, {"lines": lines, "numbers": list(range(len(lines)))} | asked)
    assert [" ".join(answer.splitlines()) for (answer,) in reply["answers"]] == whole.right(lines)
    stream, pieces = work.Stream(predictor, {"line": lines[0], "verbatim": True, "settings": {}}), []
    while "done" not in (part := stream.advance()):
        pieces.append(part["piece"])
    assert " ".join(("".join(pieces) + part["rest"]).splitlines()) == whole.right(lines)[0]


def test_onnx_is_told_how_answers_begin(made: Callable[[str], Whole]) -> None:
    """The language of an answer, BART's first token, and that the names of special tokens are tokens."""
    for name, first in (("NLLB", "deu_Latn"), ("M2M100", "__de__"), ("BART", "<s>"), ("T5", None)):
        whole = made(name)
        about = onnx._about(make_sample(load_model(whole.file)), (), [])
        assert about["prefix"] == ([] if first is None else [whole.tokenizer.convert_tokens_to_ids(first)])
        assert about["names_are_text"] is False


@pytest.mark.parametrize("name", ["NLLB", "M2M100"])
def test_models_of_many_languages_go_out_again(name: str, made: Callable[[str], Whole], tmp_path: Path) -> None:
    """Compared on real text. These models enlarge float32's rounding, transformers' own, too; in float64 all agree."""
    whole = made(name)
    exported = clearhead.export_model(whole.file, "huggingface", tmp_path / "out", lines=QUESTIONS)
    agreement = exported.agreement
    assert agreement.same == agreement.answers == exported.lines > 4
    assert agreement.worst < 1e-4 or (agreement.exact is not None and agreement.exact < 1e-9)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").state_dict()
    assert all(torch.equal(tensor, theirs[key]) for key, tensor in whole.model.state_dict().items())


def test_a_wrong_start_is_noticed(made: Callable[[str], Whole]) -> None:
    """The wrong variants: another first token, no forced token, no template give other answers."""
    whole = made("BART")
    model = clearhead.load(whole.file)
    assert isinstance(model, TextWriter)
    right = whole.right(QUESTIONS)
    # as for the right answers, whatever ends a line is a space
    assert [" ".join(answer.splitlines()) for answer in model.generate(QUESTIONS)] == right
    assert model.generate(QUESTIONS)[0] == right[0]
    assert model.generate(QUESTIONS, prefix=[])[0] != right[0]
    model.framing._first = 5
    assert model.generate(QUESTIONS)[0] != right[0]
    other = clearhead.load(whole.file)
    other.source._frame = (), (2,)
    assert other.generate(QUESTIONS)[0] != right[0]


def test_settings_of_generate_become_ours(made: Callable[[str], Whole]) -> None:
    decoding = clearhead.load(made("BART").file).recipe.decoding
    assert (decoding.beam_size, decoding.prefix, decoding.banned) == (1, [0], [3, 50])
    assert (decoding.max_length, decoding.min_length) == (12, 3)  # without the first token and the forced end
    marian = clearhead.load(made("Marian").file).recipe
    assert marian.decoding.banned == [marian.model.vocabulary.pad]
    assert marian.model.vocabulary.start == marian.model.vocabulary.pad


@pytest.mark.parametrize(
    ("name", "place", "language", "token"),
    [
        ("mBART", "decoder_start_token_id", "de_DE", "de_DE"),
        ("mBART-50", "forced_bos_token_id", "de_DE", "de_DE"),
        ("NLLB", "forced_bos_token_id", "fra_Latn", "fra_Latn"),
        ("M2M100", "forced_bos_token_id", "fr", "__fr__"),
    ],
)
def test_the_language_of_an_answer_can_be_chosen(
    name: str, place: str, language: str, token: str, made: Callable[[str], Whole]
) -> None:
    """Reference: generate with the language as first token, or as the decoder's first input."""
    whole = made(name)
    chosen = whole.tokenizer.convert_tokens_to_ids(token)
    model = clearhead.load(whole.file)
    expected = [whole.generate(line, **{place: chosen}) for line in QUESTIONS]
    assert model.generate(QUESTIONS, target_language=language) == expected
    assert model.generate(QUESTIONS) != expected
    with pytest.raises(RecipeError, match="knows no language de_XX"):
        model.generate(["x"], target_language="de_XX")


def test_the_language_of_a_text_can_be_chosen(made: Callable[[str], Whole]) -> None:
    whole = made("mBART")
    model = clearhead.load(whole.file, "decoding.source_language=fr_XX")
    whole.tokenizer.src_lang = "fr_XX"
    expected = [whole.generate(line) for line in QUESTIONS]
    whole.tokenizer.src_lang = "de_DE"
    assert model.generate(QUESTIONS) == expected
    assert clearhead.load(whole.file).generate(QUESTIONS) != expected
    with pytest.raises(RecipeError, match="tells no languages apart"):
        clearhead.load(made("BART").file).generate(["x"], source_language="fr_XX")


@pytest.mark.parametrize("name", ["Marian", "BART", "mBART", "mBART-50", "NLLB", "M2M100"])
def test_given_answers_have_the_probability_that_transformers_computes(name: str, made: Callable[[str], Whole]) -> None:
    """Reference: the sum of log-softmax of the model's logits over the tokens of the target, with its forced start."""
    whole = made(name)
    model = clearhead.load(whole.file)
    sources, targets = folders.LINES[:4], folders.LINES[4:8]
    ours = model.score(sources, targets)
    config = whole.model.generation_config
    for source, target, value in zip(sources, targets, ours, strict=True):
        right = [*model.target.encode([target])[0], config.eos_token_id]
        forced = config.forced_bos_token_id
        right = right if forced is None else [forced, *right]
        inputs = torch.tensor([[config.decoder_start_token_id, *right[:-1]]])
        asked = whole.tokenizer(source, return_tensors="pt")
        with torch.no_grad():
            logits = whole.model(**asked, decoder_input_ids=inputs, use_cache=False).logits[0]
        expected = logits.log_softmax(-1)[range(len(right)), right].sum().item()
        assert value == pytest.approx(expected, rel=1e-4)


def test_every_command_reads_raw_text(made: Callable[[str], Whole], tmp_path: Path) -> None:
    whole = made("Marian")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{line}\t{whole.right([line])[0]}\n" for line in QUESTIONS[:5]), encoding="utf-8")
    scored = json.loads(typed("eval", str(whole.file), str(pairs), "--json").stdout)
    assert scored["metrics"]["line_error"]["value"] == 0
    assert len(typed("score", str(whole.file), str(pairs)).stdout.splitlines()) == 5
    looked = json.loads(typed("look", str(whole.file), QUESTIONS[0], "--json").stdout)
    assert looked["source"][-1] == "</s>"
    streamed = "".join(clearhead.load(whole.file).stream(QUESTIONS[0]))
    assert [streamed] == whole.right(QUESTIONS[:1])
    assert clearhead.load(made("mBART-50").file).look(QUESTIONS[0]).subject.answer_tokens[0] == "ro_RO"


def test_a_server_reads_raw_text(made: Callable[[str], Whole]) -> None:
    """What a server answers is what ``answers_to_lines`` gives, also after the model was sent to another process."""
    whole = made("Marian")
    sent = pickle.loads(pickle.dumps(clearhead.load(whole.file)))
    assert isinstance(sent, Predictor)
    assert sent.generate(QUESTIONS) == whole.right(QUESTIONS)


@pytest.mark.parametrize("name", ["Marian", "BART", "mBART-50"])
def test_the_folder_can_be_written_again(name: str, made: Callable[[str], Whole], tmp_path: Path) -> None:
    """Out to Hugging Face: AutoTokenizer gives the same ids, generate the same answers, without any arguments."""
    whole = made(name)
    clearhead.export_model(whole.file, "huggingface", tmp_path / "back", lines=QUESTIONS)
    tokenizer = folders.auto_tokenizer(tmp_path / "back")
    assert tokenizer(QUESTIONS)["input_ids"] == whole.tokenizer(QUESTIONS)["input_ids"]
    again = type(whole.model).from_pretrained(tmp_path / "back")
    back = Whole(tokenizer, again, tmp_path, whole.file, {})
    assert back.right(QUESTIONS[:4]) == whole.right(QUESTIONS[:4])
    assert import_huggingface(tmp_path / "back").saved.tokenizers.keys() == clearhead.load(whole.file).tokenizers.keys()


def test_masks_are_filled_as_transformers_does(tmp_path: Path) -> None:
    """Reference: BertForMaskedLM on the ids of AutoTokenizer."""
    folders.make_tokenizer("BERT", tmp_path)
    tokenizer = folders.auto_tokenizer(tmp_path)
    config = transformers.BertConfig(**references.ENCODER_SIZES | {"vocab_size": len(tokenizer)})
    model = references.randomise(transformers.BertForMaskedLM(config))
    model.save_pretrained(tmp_path)
    predictor = clearhead.load(tmp_path)
    for line in ("the small [MASK] left", "[MASK] counted the coins", "Über die [MASK] !"):
        ids = tokenizer(line, return_tensors="pt")
        with torch.no_grad():
            logits = model(**ids).logits[0][ids["input_ids"][0] == tokenizer.mask_token_id][0]
        logits[tokenizer.all_special_ids] = -torch.inf
        assert predictor(line) == line.replace("[MASK]", tokenizer.decode([int(logits.argmax())]).strip())


def test_labels_are_those_of_the_configuration(tmp_path: Path) -> None:
    """Reference: RobertaForSequenceClassification; names by id2label."""
    folders.make_tokenizer("RoBERTa", tmp_path)
    tokenizer = folders.auto_tokenizer(tmp_path)
    names = {0: "sad", 1: "glad", 2: "neither"}
    settings = {"vocab_size": len(tokenizer), "num_labels": 3, "id2label": names, "max_position_embeddings": 80}
    model = references.randomise(references.roberta_classifier(**settings))
    model.save_pretrained(tmp_path)
    predictor = clearhead.load(tmp_path)
    for line, (best,) in zip(QUESTIONS, predictor.answers(QUESTIONS), strict=True):
        with torch.no_grad():
            expected = model(**tokenizer(line, return_tensors="pt")).logits[0].softmax(0)
        assert best.text == names[int(expected.argmax())]
        assert best.probabilities == pytest.approx({names[n]: expected[n].item() for n in names}, abs=1e-4)
