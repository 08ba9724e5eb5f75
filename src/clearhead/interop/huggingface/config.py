"""Reads a foreign ``config.json``, and refuses settings that it does not understand."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from clearhead.errors import UnsupportedModel, did_you_mean

T = TypeVar("T")

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Their names of activations, and ours."""

_NO_MATHEMATICS = {
    # where it comes from
    *(
        "_name_or_path",
        "_num_labels",
        "architectures",
        "author",
        "transformers_version",
        "torch_dtype",
        "dtype",
    ),
    *("finetuning_task", "id2label", "label2id", "num_labels", "problem_type", "task_specific_params"),
    *("tokenizer_class", "prefix", "model_max_length", "pretrained_model_name_or_path", "license", "tags"),
    # how it is run or trained, not what it computes
    *("use_cache", "gradient_checkpointing", "chunk_size_feed_forward", "torchscript", "return_dict"),
    *(
        "output_attentions",
        "output_hidden_states",
        "output_past",
        "classif_dropout",
        "_attn_implementation_autoset",
    ),
    # defaults of transformers' generate
    *("eos_token_ids", "is_composition", "max_new_tokens", "min_new_tokens", "renormalize_logits", "use_return_dict"),
    *("bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping"),
    *("encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id"),
    *("forced_eos_token_id", "force_bos_token_to_be_generated", "length_penalty", "max_length", "min_length"),
    *("no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores"),
    *("remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "suppress_tokens"),
    *("temperature", "top_k", "top_p", "typical_p"),
}
"""Settings that do not change what a network computes from its input."""

_ONLY: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "is_decoder": (False,),
    "pruned_heads": ({}, None),
    "tie_encoder_decoder": (False,),
    "cross_attention_hidden_size": (None,),
    "use_bfloat16": (False,),
    "is_encoder_decoder": (False,),
    "quantization_config": (None, {}),
}
"""Settings that every reader understands in one way only: these values change nothing."""

MOST_LAYERS = 10_000
"""The most layers, as in a recipe; checked first, as everything else is planned for each layer."""
_METADATA = re.compile(
    r"_.*|.*(note|comment|description|author|licen[cs]e|date|time|version|url|link|tag|dataset|language|commit|sha|hash"
    r"|citation|paper|model_name|run_name|run_id|experiment|wandb|mlflow|info|metadata|trained_by|origin|card)s?"
)
"""Names of settings that describe a model; if their values are texts, they change nothing."""


class ForeignConfig:
    """A configuration whose settings are taken one by one; ``finish`` refuses those that were not taken."""

    def __init__(self, settings: dict[str, Any], path: Path, ignore: Sequence[str] = ()) -> None:
        self.path = path
        self._settings = settings
        self._left = set(settings) - _NO_MATHEMATICS
        self._ignored = set(ignore)
        for name, value in settings.items():
            if "layer" in name and isinstance(value, int) and value > MOST_LAYERS:
                raise UnsupportedModel(f"{path}: {name} = {value}: at most {MOST_LAYERS:,} layers are supported")
        self.left_behind: list[str] = []
        """What is not imported, each with a reason: settings that change nothing, names that cannot be kept."""
        for name in ignore:
            if name not in settings:
                near = did_you_mean(name, list(settings))
                raise UnsupportedModel(f"--ignore {name}: {path} has no such setting{near}")

    def take(self, name: str, default: T) -> T:
        """Take a setting: its value, which must have the default's type, or transformers' default.

        Null counts as absent. With a default of None the setting is taken and ignored.
        """
        self._left.discard(name)
        value = self._settings.get(name)
        if value is None or default is None:
            return default
        expected = (int, float) if isinstance(default, float) else type(default)
        if not isinstance(value, expected) or (isinstance(value, bool) and not isinstance(default, bool)):
            raise UnsupportedModel(f"{self.path}: {name} = {value!r} should be like {default!r}")
        return cast("T", value)

    def positive(self, name: str, default: T) -> T:
        """The same for a number that something is divided by, or whose root is taken."""
        value: Any = self.take(name, default)
        if not value > 0:
            raise UnsupportedModel(f"{self.path}: {name} = {value!r} should be above 0")
        return cast("T", value)

    def nullable(self, name: str, default: T) -> T | None:
        """The same for a setting of which null means something else than its absence."""
        found = self.take(name, default)
        return None if name in self._settings and self._settings[name] is None else found

    def token(self, name: str, default: int | None) -> int | str:
        """Take the id of a special token, of several ends the first; null becomes "none", as recipes write it."""
        self._left.discard(name)
        value = self._settings.get(name, default)
        if name == "eos_token_id" and isinstance(value, list) and value:
            if len(value) > 1:
                self.left_behind.append(several_ends(value))
            value = value[0]
        if value is None:
            return "none"
        if not isinstance(value, int):
            raise UnsupportedModel(f"{self.path}: {name} = {value}: only a single id is supported")
        return value

    def listed(self, name: str, separator: str) -> list[str]:
        """Take several words, as a list or as one text with separators; none if the setting is absent."""
        self._left.discard(name)
        value = self._settings.get(name) or []
        words = [word.strip() for word in value.split(separator)] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UnsupportedModel(f"{self.path}: {name} = {value!r} should be a list of words")
        return words

    def pair(self, name: str, default: int) -> tuple[int, int]:
        """Take two sizes, or one that stands for both."""
        self._left.discard(name)
        value = self._settings.get(name)
        sizes = [default if value is None else value] * 2 if not isinstance(value, list) else value
        if len(sizes) != 2 or not all(type(size) is int for size in sizes):
            raise UnsupportedModel(f"{self.path}: {name} = {value!r} should be one whole number, or two")
        return sizes[0], sizes[1]

    def only(self, name: str, *allowed: Any) -> None:
        """Take a setting that must have one of these values, if it is there."""
        self._left.discard(name)
        if name in self._settings and self._settings[name] not in allowed:
            raise UnsupportedModel(
                f"{self.path}: {name} = {self._settings[name]!r} is not supported "
                f"(supported: {', '.join(repr(value) for value in allowed)})"
            )

    def activation(self, name: str, default: str) -> str:
        """Take an activation, and return our name for it."""
        value = self.take(name, default)
        if value not in ACTIVATIONS:
            raise UnsupportedModel(
                f"{self.path}: {name} = {value!r} is not supported (supported: {', '.join(ACTIVATIONS)})"
            )
        return ACTIVATIONS[value]

    def labels(self, classes: int) -> list[str]:
        """Take the names of the classes, ``id2label``; none unless each class has its own name."""
        named = self._settings.get("id2label")
        if named is None:
            return []
        words = [named.get(str(number)) for number in range(classes)] if isinstance(named, dict) else []
        if len(named) == len(set(map(str, words))) == classes and all(isinstance(word, str) for word in words):
            return [str(word) for word in words]
        self.left_behind.append(f"id2label: does not give each of {classes} classes a name of its own")
        return []

    def finish(self) -> None:
        """Refuse every setting that was not taken, as it might change the results.

        Notes about the model, and settings in ``ignore``, are not imported but reported.
        """
        for name, allowed in _ONLY.items():
            if name in self._left:
                self.only(name, *allowed)
        for name in sorted(self._left):
            value = self._settings[name]
            if name in self._ignored:
                self._leave(name, "as asked")
            elif value is None or (_METADATA.fullmatch(name) and _is_words(value)):
                self._leave(name, "a note, not a setting of the network")
        if self._left:
            shown = ", ".join(f"{name} = {_shown(self._settings[name])}" for name in sorted(self._left))
            raise UnsupportedModel(
                f"{self.path}: clearhead does not know the settings: {shown}; "
                f"if they do not change what the network computes: --ignore {' --ignore '.join(sorted(self._left))}"
            )

    def _leave(self, name: str, reason: str) -> None:
        self._left.discard(name)
        if self._settings[name] is not None:
            self.left_behind.append(f"{name} = {_shown(self._settings[name])}: {reason}")


def several_ends(ids: list[Any]) -> str:
    """Says that of several end tokens one is kept."""
    return f"eos_token_id = {_shown(ids)}: answers end at {_shown(ids[0])} alone"


def _is_words(value: Any) -> bool:
    """A text, or a list or table of texts."""
    if isinstance(value, list | dict):
        return all(isinstance(word, str) for word in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, str)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
