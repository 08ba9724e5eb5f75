"""What drives a model that writes: how much it can be given."""

import sys

import pytest
import torch

from clearhead.errors import TooLong
from clearhead.predictor import Engine
from tests.models.zoo import VARIANTS, make

LONG = 600


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_reads_as_much_as_its_parts_can_take_and_no_less(variant: str) -> None:
    """To the last token where a table or a map over the length ends, and anything where none does."""
    model = make("seq2seq", variant)
    end = Engine(model).reach
    with torch.no_grad():
        model.encode(torch.full((1, min(end, LONG)), 5))
        if end < sys.maxsize:
            with pytest.raises(TooLong):
                model.encode(torch.full((1, end + 1), 5))
