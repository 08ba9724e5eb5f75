"""Hugging Face folders with tokenizers learnt from a small text and tiny random models, made by transformers itself."""

import io
import json
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import (
    BertWordPieceTokenizer,
    ByteLevelBPETokenizer,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
)

from tests.interop.references import transformers

TEXT = """
The small boat left the harbour before the sun rose over the hills.
Nobody knew how many letters the old clock maker had written that year.
In winter the river freezes, and children walk across it to school.
She counted the coins twice: eleven, twelve, thirteen; then she laughed!
A teacher asked whether machines could read, write and translate poems.
Der kleine Hund läuft über die Straße, weil es heute schön ist.
Wir haben gestern fünf Äpfel, zwölf Nüsse und ein Brot gekauft.
Où est la bibliothèque ? Le garçon a mangé une pêche près du château.
Le petit chat dort déjà sous la table, à côté de la fenêtre.
Un niño pequeño comió mañana y tarde; ¿cuándo volverá a su casa?
"""
LINES = [line for line in TEXT.splitlines() if line]
SIZE = 160
"""Tokens of the vocabularies."""
LANGUAGES = ("en_XX", "de_DE", "ro_RO")


@cache
def piece_model(kind: str = "unigram", size: int = SIZE, skipped: int = 0, **options: Any) -> bytes:
    """A SentencePiece model that is learnt from all lines but the first few."""
    found = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES[skipped:] * 4),
        model_writer=found,
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return found.getvalue()


@cache
def byte_pairs(*specials: str) -> tuple[dict[str, int], Any]:
    """The vocabulary and the merges of a byte-level BPE."""
    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator(LINES * 4, vocab_size=SIZE + 256, special_tokens=list(specials), show_progress=False)
    model = json.loads(learner.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


@cache
def word_pieces() -> dict[str, int]:
    """The vocabulary of a WordPiece model."""
    learner = BertWordPieceTokenizer()
    learner.train_from_iterator(LINES * 4, vocab_size=SIZE, show_progress=False)
    found: dict[str, int] = json.loads(learner.to_str())["model"]["vocab"]
    return found


def bert(folder: Path) -> Any:
    tokenizer = transformers.BertTokenizer(vocab=word_pieces())
    tokenizer.save_pretrained(folder)
    return tokenizer


def older_bert(folder: Path) -> None:
    """Only ``vocab.txt``."""
    words = sorted(word_pieces(), key=word_pieces().__getitem__)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    _configure(folder, tokenizer_class="BertTokenizer", do_lower_case=False)


def roberta(folder: Path) -> None:
    vocabulary, merges = byte_pairs("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    transformers.RobertaTokenizer(vocab=vocabulary, merges=merges).save_pretrained(folder)


def bart(folder: Path) -> None:
    vocabulary, merges = byte_pairs("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    transformers.BartTokenizer(vocab=vocabulary, merges=merges).save_pretrained(folder)


def gpt2(folder: Path) -> None:
    vocabulary, merges = byte_pairs("<|endoftext|>")
    transformers.GPT2Tokenizer(vocab=vocabulary, merges=merges).save_pretrained(folder)


def bloom(folder: Path) -> None:
    """Only ``tokenizer.json``, of no class in particular."""
    vocabulary, merges = byte_pairs("<|endoftext|>")
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)


def older_gpt2(folder: Path) -> None:
    """Only ``vocab.json`` and ``merges.txt``."""
    vocabulary, merges = byte_pairs("<|endoftext|>")
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    rows = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    _configure(folder, tokenizer_class="GPT2Tokenizer")


def older_t5(folder: Path) -> None:
    """Only ``spiece.model``."""
    model = piece_model(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>")
    (folder / "spiece.model").write_bytes(model)
    _configure(folder, tokenizer_class="T5Tokenizer", extra_ids=10)


def t5(folder: Path) -> None:
    aside = folder / "older"
    aside.mkdir()
    older_t5(aside)
    transformers.T5Tokenizer.from_pretrained(aside, extra_ids=10).save_pretrained(folder)


def older_mbart(folder: Path) -> None:
    """Only ``sentencepiece.bpe.model``."""
    (folder / "sentencepiece.bpe.model").write_bytes(piece_model())
    _configure(folder, tokenizer_class="MBartTokenizer", src_lang="de_DE", tgt_lang="ro_RO")


def mbart(folder: Path) -> None:
    aside = folder / "older"
    aside.mkdir()
    older_mbart(aside)
    tokenizer = transformers.MBartTokenizer.from_pretrained(aside, src_lang="de_DE", tgt_lang="ro_RO")
    tokenizer.save_pretrained(folder)


def nllb(folder: Path) -> None:
    aside = folder / "older"
    aside.mkdir()
    (aside / "sentencepiece.bpe.model").write_bytes(piece_model("bpe"))
    _configure(aside, tokenizer_class="NllbTokenizer")
    codes = ["eng_Latn", "deu_Latn", "fra_Latn"]
    languages: dict[str, Any] = {"src_lang": "deu_Latn", "tgt_lang": "fra_Latn", "extra_special_tokens": codes}
    transformers.NllbTokenizer.from_pretrained(aside, **languages).save_pretrained(folder)


def marian(folder: Path) -> None:
    """Two SentencePiece models and one vocabulary, whose ids are those of neither."""
    names: set[str] = set()
    for side, skipped in (("source", 0), ("target", 3)):
        model = piece_model(skipped=skipped, size=SIZE - 40)
        (folder / f"{side}.spm").write_bytes(model)
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        names |= {pieces.id_to_piece(index) for index in range(3, len(pieces))}
    listed = ["</s>", "<unk>", ">>fr<<", *sorted(names)[1:], "<pad>"]  # one piece is not in the vocabulary
    (folder / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(listed)}))
    _configure(folder, tokenizer_class="MarianTokenizer", source_lang="en", target_lang="de")
    transformers.MarianTokenizer.from_pretrained(folder).save_pretrained(folder)


def m2m100(folder: Path) -> None:
    from transformers.models.m2m_100 import tokenization_m2m_100

    model = piece_model()
    aside = folder / "older"
    aside.mkdir()
    (aside / "sentencepiece.bpe.model").write_bytes(model)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    names = ["<s>", "<pad>", "</s>", "<unk>", *(pieces.id_to_piece(index) for index in range(4, len(pieces)))]
    (aside / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(names)}))
    codes = tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    tokenizer = transformers.M2M100Tokenizer(
        aside / "vocab.json",
        str(aside / "sentencepiece.bpe.model"),
        src_lang="fr",
        additional_special_tokens=[f"__{code}__" for code in codes],
    )
    tokenizer.save_pretrained(folder)


def _configure(folder: Path, **settings: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


TOKENIZERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "BERT": ("bert", bert),
    "BERT, vocab.txt": ("bert", older_bert),
    "RoBERTa": ("roberta", roberta),
    "BART": ("bart", bart),
    "GPT-2": ("gpt2", gpt2),
    "Bloom": ("bloom", bloom),
    "GPT-2, merges.txt": ("gpt2", older_gpt2),
    "T5": ("t5", t5),
    "T5, spiece.model": ("t5", older_t5),
    "mBART": ("mbart", mbart),
    "mBART, sentencepiece.bpe.model": ("mbart", older_mbart),
    "NLLB": ("m2m_100", nllb),
    "Marian": ("marian", marian),
    "M2M100": ("m2m_100", m2m100),
}
"""How to make the tokenizer of an architecture, by the ``model_type`` of its models."""


def make_tokenizer(name: str, folder: Path) -> str:
    """Write the files of a tokenizer and a ``config.json`` that says whose they are; returns the ``model_type``."""
    kind, make = TOKENIZERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Marian's recommends a package that it no longer uses
        make(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    return kind


def auto_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder as transformers reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.AutoTokenizer.from_pretrained(folder)
