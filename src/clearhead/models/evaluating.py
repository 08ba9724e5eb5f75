"""Evaluation mode for one thread at a time."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal
from weakref import WeakKeyDictionary

import torch

from clearhead.attention import use_choice
from clearhead.errors import DoesNotFit
from clearhead.models.base import Model

AttentionChoice = Literal["trained", "soft", "hard"]
"""``decoding.attention``: the choice that the model was trained with, soft attention, or hard attention."""


@contextmanager
def evaluating(model: Model, attention: AttentionChoice = "trained", *, gradients: bool = False) -> Iterator[None]:
    """Lock the model and put it into evaluation mode: no dropout, no gradients, the given choice of attention.

    The previous mode is restored afterwards. The lock is needed because modes and hooks belong to the model, not to the
    thread; hold it only while computing, never while waiting for something else.

    Args:
        model: the model.
        attention: soft or hard attention. Default: as it was trained.
        gradients: whether gradients are needed. Default: False.
    """
    with _lock_of(model):
        was_training = model.training
        if was_training:  # walking over all modules takes as long as decoding one token
            model.eval()
        try:
            with (
                torch.enable_grad() if gradients else torch.inference_mode(),
                nullcontext() if attention == "trained" else use_choice(model, attention),
            ):
                yield
        except RuntimeError as error:
            if "not enough memory" not in str(error) and not isinstance(error, torch.OutOfMemoryError):
                raise
            way_out = "a smaller decoding.batch_tokens, decoding.beam_size or decoding.max_source may help"
            raise DoesNotFit(f"there is not enough memory to answer: {way_out}") from None
        finally:
            if was_training:
                model.train()


_locks: "WeakKeyDictionary[Model, threading.RLock]" = WeakKeyDictionary()
if hasattr(os, "register_at_fork"):
    # a process forked while a thread holds a lock would wait for it forever
    os.register_at_fork(after_in_child=_locks.clear)


def _lock_of(model: Model) -> "threading.RLock":
    lock = _locks.get(model)
    # setdefault is atomic: if two threads arrive at once, both get the same lock
    return lock if lock is not None else _locks.setdefault(model, threading.RLock())


def device_of(model: Model) -> torch.device:
    """The device of a model's parameters."""
    return next(model.parameters()).device
