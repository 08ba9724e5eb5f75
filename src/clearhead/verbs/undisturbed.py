"""Work that leaves the process as it found it: global random state and numbers of threads."""

import random
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """While inside, torch's random state and thread count may be changed; afterwards they are as before.

    Python's and NumPy's global generators are put back too, though nothing of ours draws from them.
    """
    import numpy as np
    import threadpoolctl
    import torch

    drawn = torch.random.get_rng_state(), np.random.get_state(), random.getstate()
    threads = torch.get_num_threads()
    try:
        with threadpoolctl.threadpool_limits():  # puts back what is set inside, by whomever
            yield
    finally:
        torch.set_num_threads(threads)
        torch.random.set_rng_state(drawn[0])
        np.random.set_state(drawn[1])
        random.setstate(drawn[2])
