"""The engine: the longest inputs that it accepts."""

import sys

import pytest
import torch

from clearhead.errors import TooLong
from clearhead.predictor import Engine
from tests.models.zoo import VARIANTS, make

LONG = 600


@pytest.mark.parametrize("family", ["seq2seq", "lm"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_takes_as_much_as_its_parts_can_and_no_less(variant: str, family: str) -> None:
    """To the last token where a table or a map over the length ends, and anything where none does.

    An encoder-decoder reads so much; what a language model reads and writes goes through one stack.
    """
    model = make(family, variant)
    end = Engine(model).reach
    read = model.encode if family == "seq2seq" else model
    with torch.no_grad():
        read(torch.full((1, min(end, LONG)), 5))
        if end < sys.maxsize:
            with pytest.raises(TooLong):
                read(torch.full((1, end + 1), 5))
