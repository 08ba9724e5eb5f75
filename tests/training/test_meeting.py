"""Processes that are started again do not take those that are gone for their partners."""

from concurrent.futures import ThreadPoolExecutor

import torch.distributed as dist

from clearhead.training.meeting import agreed_name


def test_each_start_agrees_on_a_name_of_its_own() -> None:
    """In one store for all of them, with what earlier starts left there, also one that never came together."""
    store = dist.HashStore()  # type: ignore[attr-defined]
    store.set("asked/1", "gone")
    found = []
    with ThreadPoolExecutor(3) as threads:
        for _ in range(3):
            names = list(threads.map(lambda rank: agreed_name(store, rank, 3), range(3)))
            assert len(set(names)) == 1
            found += names
    assert len(set(found)) == 3
