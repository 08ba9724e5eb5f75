"""How many connections the system lets us have: each takes a file descriptor, and without one nothing can be accepted.

Running out of them is worse than refusing: the loop would report each attempt, thousands of times a second.
"""

try:
    import resource
except ImportError:  # a system without limits of this kind
    resource = None  # type: ignore[assignment]

RESERVED = 200
"""Descriptors for what is no connection: workers, models, and connections that are being turned away."""
WANTED = 1 << 16
"""As many descriptors as we ask for, at most."""
LEAST = 10
"""Connections that are tried in any case."""


def allowed_connections(wanted: int) -> int:
    """As many connections as wanted, or as many as fit; raises the limit of this process as far as it may be."""
    if resource is None:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited:
        return wanted
    higher = WANTED if hard == unlimited else min(hard, WANTED)
    if soft < higher:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (higher, hard))
            soft = higher
        except (OSError, ValueError):
            pass  # then with what there is
    return min(wanted, max(LEAST, soft - RESERVED))
