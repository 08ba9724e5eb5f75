"""The socket that a server listens on."""

import asyncio
import socket

import pytest

from clearhead.errors import ClearheadError
from clearhead.serving.server import _listening
from clearhead.serving.settings import ServeSettings


def test_small_answers_are_not_held_back() -> None:
    """Headers and body are two packets: with Nagle's algorithm the second waits for the client, 40 ms each time.

    asyncio turns it off for sockets that are named TCP; the wrong variant, as ``socket.socket()`` makes it, is not.
    """

    async def delayed(listener: socket.socket) -> bool:
        found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            del reader
            found.set_result(not writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(accepted, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            answer = await found
            writer.close()
            await writer.wait_closed()
        return answer

    with _listening(ServeSettings(port=0)) as listener:
        assert not asyncio.run(delayed(listener))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as plain:
        plain.bind(("127.0.0.1", 0))
        assert asyncio.run(delayed(plain))


@pytest.mark.parametrize("host", ["a" * 300, "a..b"])
def test_a_host_that_is_no_name_is_refused_in_words(host: str) -> None:
    """Python's resolver raises UnicodeError for these, which is no OSError."""
    with (
        pytest.raises(ClearheadError, match="is no name of a machine"),
        _listening(ServeSettings(host=host, port=0)),
    ):
        pass
