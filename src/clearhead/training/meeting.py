"""Where the processes of a group find each other, anew each time that torchrun starts them.

torchrun keeps one store for all starts of a group, so that a process may find the address of one that was killed before
and wait for it forever (pytorch issue 135712; the count of restarts is each node's own). So each start agrees on a name
that no other has used, and everything else stands under that name.
"""

import time
import uuid
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

_PAUSE = 0.02
"""Seconds after which the leader looks again who is there."""


def meet(timeout: timedelta) -> tuple[Any, int, int]:
    """The store of this start alone, this process's rank, and the number of processes."""
    store, rank, size = next(rendezvous("env://", timeout=timeout))
    own = dist.PrefixStore(agreed_name(store, rank, size), store)  # type: ignore[attr-defined]
    return own, rank, size


def agreed_name(store: Any, rank: int, size: int) -> str:
    """A name that all processes of this start, and no others, get.

    Each of the others asks under a name of its own; the leader answers until everybody has said that it heard.
    """
    if rank:
        asked = uuid.uuid4().hex
        store.set(f"asked/{rank}", asked)
        name: str = store.get(f"answer/{asked}").decode()  # waits for it
        store.set(f"heard/{name}/{rank}", "")
        return name
    name, missing = uuid.uuid4().hex, set(range(1, size))
    while missing:
        for other in list(missing):
            if store.check([f"asked/{other}"]):  # perhaps by one that is gone: then another will come
                store.set(f"answer/{store.get(f'asked/{other}').decode()}", name)
            if store.check([f"heard/{name}/{other}"]):
                missing.discard(other)
        time.sleep(_PAUSE if missing else 0)
    return name
