"""A foreign configuration in which every setting is accounted for."""

from pathlib import Path
from typing import Any, TypeVar, cast

from clearhead.errors import UnsupportedModel

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
    *("tokenizer_class", "prefix", "model_max_length"),
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
}
"""Settings that every reader understands in one way only."""


class ForeignConfig:
    """Settings are taken one by one; ``finish`` complains about whatever was not understood."""

    def __init__(self, settings: dict[str, Any], path: Path) -> None:
        self.path = path
        self._settings = settings
        self._left = set(settings) - _NO_MATHEMATICS

    def take(self, name: str, default: T) -> T:
        """A setting's value, which must be of its default's type, or else that default of transformers.

        Null counts as absent. A default of None takes the setting out of the account, whatever it says.
        """
        self._left.discard(name)
        value = self._settings.get(name)
        if value is None or default is None:
            return default
        expected = (int, float) if isinstance(default, float) else type(default)
        if not isinstance(value, expected) or (isinstance(value, bool) and not isinstance(default, bool)):
            raise UnsupportedModel(f"{self.path}: {name} = {value!r} should be like {default!r}")
        return cast("T", value)

    def token(self, name: str, default: int | None) -> int | str:
        """The id of a special token; a model without it says null, for which recipes have "none"."""
        self._left.discard(name)
        value = self._settings.get(name, default)
        if value is None:
            return "none"
        if not isinstance(value, int):
            raise UnsupportedModel(f"{self.path}: {name} = {value}: one id is supported, nothing else")
        return value

    def listed(self, name: str, separator: str) -> list[str]:
        """Several words, as a list or in one text between separators; nothing if the setting is not there."""
        self._left.discard(name)
        value = self._settings.get(name) or []
        words = [word.strip() for word in value.split(separator)] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UnsupportedModel(f"{self.path}: {name} = {value!r} should be a list of words")
        return words

    def pair(self, name: str, default: int) -> tuple[int, int]:
        """Two sizes, or one that stands for both."""
        self._left.discard(name)
        value = self._settings.get(name)
        sizes = [default if value is None else value] * 2 if not isinstance(value, list) else value
        if len(sizes) != 2 or not all(type(size) is int for size in sizes):
            raise UnsupportedModel(f"{self.path}: {name} = {value!r} should be one whole number, or two")
        return sizes[0], sizes[1]

    def only(self, name: str, *allowed: Any) -> None:
        """Insist on one of these values, if the setting is there at all."""
        self._left.discard(name)
        if name in self._settings and self._settings[name] not in allowed:
            raise UnsupportedModel(
                f"{self.path}: {name} = {self._settings[name]!r} is not supported "
                f"(supported: {', '.join(repr(value) for value in allowed)})"
            )

    def activation(self, name: str, default: str) -> str:
        """An activation by our name for it."""
        value = self.take(name, default)
        if value not in ACTIVATIONS:
            raise UnsupportedModel(
                f"{self.path}: {name} = {value!r} is not supported (supported: {', '.join(ACTIVATIONS)})"
            )
        return ACTIVATIONS[value]

    def finish(self) -> None:
        """Complain about every setting that nobody asked for: it might change the results."""
        for name, allowed in _ONLY.items():
            if name in self._left:
                self.only(name, *allowed)
        if self._left:
            shown = ", ".join(f"{name} = {self._settings[name]!r}" for name in sorted(self._left))
            raise UnsupportedModel(f"{self.path}: clearhead does not know the settings: {shown}")
