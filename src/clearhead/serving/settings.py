"""What a server may be told: where it listens, whom it answers, and how much it takes on."""

from dataclasses import dataclass

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServeSettings:
    """The settings of a server; the defaults suit one person on one machine."""

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8000
    """The port to listen on; 0 takes a free one."""
    workers: int | None = None
    """Processes that answer, of one thread each; None: as many as there are cores, and one on a GPU."""
    token: str | None = None
    """What clients must send as ``Authorization: Bearer …``; None: nothing, which only a loopback address allows."""
    allowed_hosts: tuple[str, ...] = ()
    """Values of the Host header that are answered, beside the loopback names and ``host`` itself."""
    origins: tuple[str, ...] = ()
    """Values of the Origin header that are answered, beside the server's own."""
    body_bytes: int = 4 << 20
    """The largest body of a request."""
    body_seconds: float = 20.0
    """How long a client may take to send a request, and to take an answer in."""
    lines_per_request: int = 2_000
    """Most lines, or rows to score, in one request."""
    characters_per_line: int = 20_000
    """The longest line."""
    waiting_lines: int = 20_000
    """Lines that may wait to be answered; beyond it, requests are turned away."""
    waiting_characters: int = 32_000_000
    """Characters of the requests that are not answered yet, settings included; beyond it, requests are turned away."""
    waiting_looks: int = 8
    """Looks that may wait, as one is made at a time."""
    open_streams: int = 64
    """Answers that may be written token by token at a time."""
    n_best: int = 64
    """Most answers to a line."""
    beam_size: int = 64
    """The widest beam that a request may ask for."""
    answer_tokens: int = 4_096
    """The longest answer that a request may ask for."""
    answer_ratio: float = 10.0
    """The longest answer that a request may ask for, in tokens for each source token."""
    deadline_seconds: float = 60.0
    """How long an answer may take, waiting included; of a stream, each piece of it."""
    grace_seconds: float = 7.0
    """How long work in flight may take after the server was told to stop."""
    watch: float | None = None
    """Seconds between looks for a newer model under the same name; None: only when asked (``SIGHUP``)."""
    engine: str = "native"
    """What answers: native, ctranslate2 or onnxruntime; looks and scores are always native."""
    int8: bool = False
    """For ctranslate2: weights in eight bits."""
    device: str = "cpu"
    """Where the models compute: cpu, cuda, cuda:1, mps; auto takes a GPU if there is one."""
    access_log: bool = False
    """Whether each request is logged: its route, status, size and time, nothing of what it says."""
