"""The harness itself: the network is shut, and the caches are temporary."""

import os
import socket

import pytest


def test_a_connection_to_the_outside_is_refused():
    with socket.socket() as client, pytest.raises(RuntimeError, match=r"tried to reach 192\.0\.2\.1"):
        client.connect(("192.0.2.1", 80))


def test_a_name_is_not_looked_up():
    with pytest.raises(RuntimeError, match=r"tried to look up example\.org"):
        socket.create_connection(("example.org", 80))


def test_a_local_connection_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


def test_the_cache_is_a_temporary_folder_and_the_hub_is_offline():
    assert "boustro-tests-" in os.environ["BOUSTRO_CACHE"]
    assert os.environ["HF_HUB_OFFLINE"] == "1"
