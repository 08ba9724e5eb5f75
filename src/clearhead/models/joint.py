"""The joint n-gram model of an encoder-decoder, as a part of it: numbers that were counted and are not trained.

Shapes: u units, k n-grams.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from clearhead.errors import DamagedFile
from clearhead.joint import JointNgrams, NgramTable, from_bytes, in_bytes
from clearhead.joint.kneser_ney import FIRST
from clearhead.recipe import JointSpec


class JointTable(nn.Module):
    """Holds what ``clearhead.joint.fit`` has counted, so that it is stored, copied and sent together with the weights.

    Args:
        spec: how much there is.
    """

    def __init__(self, spec: JointSpec) -> None:
        super().__init__()
        self.spec = spec
        self.register_buffer("units", torch.zeros(spec.units, dtype=torch.int64))  # (u,)
        self.register_buffer("tokens", torch.zeros(spec.nodes, dtype=torch.int16))  # (k,)
        self.register_buffer("followers", torch.zeros(spec.nodes, dtype=torch.int16))  # (k,)
        self.register_buffer("log_p", torch.zeros(spec.nodes, dtype=torch.uint8))  # (k,) see joint.in_bytes
        self.register_buffer("log_backoff", torch.zeros(spec.nodes, dtype=torch.uint8))  # (k,)
        self._ready: JointNgrams | None = None

    def extra_repr(self) -> str:
        return f"{self.spec.nodes:,} n-grams of {self.spec.units:,} units"

    def fill(self, counted: JointNgrams) -> None:
        """Put in what was counted."""
        table = counted.table
        for name, values in (
            ("units", counted.units),
            ("tokens", table.tokens),
            ("followers", table.followers),
            ("log_p", in_bytes(table.log_p)),
            ("log_backoff", in_bytes(table.log_backoff)),
        ):
            buffer = getattr(self, name)
            buffer.copy_(torch.from_numpy(np.ascontiguousarray(values)).to(buffer.dtype))
        self._ready = None

    def ngrams(self) -> JointNgrams:
        """What is asked for scores; made from the numbers when it is first needed."""
        if self._ready is None:
            wide = [getattr(self, name).cpu().numpy().astype(np.int64) for name in ("units", "tokens", "followers")]
            logs = [from_bytes(getattr(self, name).cpu().numpy()) for name in ("log_p", "log_backoff")]
            units, tokens, followers = wide
            try:
                self._ready = JointNgrams(units, NgramTable(len(units) + FIRST, tokens, followers, *logs))
            except ValueError as error:
                raise DamagedFile(f"the joint n-grams of the model are damaged ({error}): train it again") from None
        return self._ready

    def __getstate__(self) -> dict[str, Any]:
        """Copies and other processes make what is asked from the numbers again."""
        return self.__dict__ | {"_ready": None}
