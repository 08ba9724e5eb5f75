"""The server of one page: for this machine only, one address, bounded, and ended by Ctrl-C."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from clearhead.errors import ClearheadError
from clearhead.lectures.serving import HOST, PageServer


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer("<p>ünï</p>", port=0) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server: PageServer, method: str, path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=120)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_one_page_and_nothing_else(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server, "GET", "/") == (200, "<p>ünï</p>")
    assert ask(server, "HEAD", "/") == (200, "")
    assert ask(server, "GET", "/?from=here")[0] == 200
    for path in ("/other", "/../etc/passwd", "/index.html"):
        assert ask(server, "GET", path)[0] == 404
    assert ask(server, "POST", "/")[0] == 501


def test_another_name_for_this_machine_is_refused(server: PageServer) -> None:
    assert ask(server, "GET", "/", host=f"localhost:{server.server_port}")[0] == 200
    assert ask(server, "GET", "/", host="example.org")[0] == 403


def test_a_silent_connection_stops_nobody(server: PageServer) -> None:
    with socket.create_connection((HOST, server.server_port)):
        assert ask(server, "GET", "/")[0] == 200


def test_a_taken_port_is_told(server: PageServer) -> None:
    with pytest.raises(ClearheadError, match=f"port {server.server_port} cannot be used.*--port"):
        PageServer("", port=server.server_port)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another signal there")
def test_ctrl_c_ends_it_cleanly() -> None:
    code = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, shells have it ignored\n"
        "from clearhead.lectures import Outcome, claims, serve_lecture_page\n"
        "outcomes = [Outcome(claims()[0], None, 0, '')]\n"
        "serve_lecture_page(outcomes, port=0, ready=lambda address: print(address, flush=True))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            port = int(line.split("127.0.0.1:")[1].split("/")[0])
            connection = http.client.HTTPConnection(HOST, port, timeout=120)
            connection.request("GET", "/")
            assert "The lectures, running: 0 of 1" in connection.getresponse().read().decode()
            connection.close()
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=120)
            assert (process.returncode, told) == (0, "")
        finally:
            process.kill()
