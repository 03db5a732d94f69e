"""Which connection goes when there are too many, and which because its client takes too long."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from scheduler.connectionlimits import ConnectionLimits, client_of
from scheduler.observe.bounded import SECONDS, ClientConnection, Connections, Drop, Wait


class Port:
    """Connections with a clock; those that were ended, and what was said of them."""

    def __init__(self, total: int = 8, per_address: int | None = 3) -> None:
        self.now = 1000.0
        self.closed: list[ClientConnection] = []
        self.dropped: list[tuple[ClientConnection, Drop, str]] = []
        limits = ConnectionLimits(total, per_address)
        self.connections = Connections(limits, lambda *drop: self.dropped.append(drop), lambda: self.now)

    def connect(self, address: str, wait: Wait = Wait.HANDSHAKE) -> ClientConnection:
        connection = self.new(address)
        assert self.connections.enter(connection, wait)
        return connection

    def new(self, address: str) -> ClientConnection:
        connection = ClientConnection(address, lambda: self.closed.append(connection))
        return connection

    def answering(self, address: str) -> ClientConnection:
        connection = self.connect(address)
        self.connections.wait_for(connection, None)
        return connection

    def idle(self, address: str) -> ClientConnection:
        connection = self.answering(address)
        self.connections.wait_for(connection, Wait.NEXT_REQUEST)
        return connection


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fd00:1:2:3::1", "fd00:1:2:3::/64"),
        ("fd00:1:2:3:ffff:ffff:ffff:ffff", "fd00:1:2:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_connections_count_by_ipv4_address_or_64_bits_of_ipv6(address: str, client: str) -> None:
    assert client_of(address) == client


def test_an_address_beyond_its_number_loses_its_own_oldest_connection() -> None:
    port = Port()
    other = port.connect("10.0.0.9")
    first, *_ = [port.connect("10.0.0.1") for _ in range(3)]
    port.connect("::ffff:10.0.0.1")
    assert port.closed == [first]
    assert port.dropped == [(first, Drop.ADDRESS, "more than 3 of one address")]
    assert other not in port.closed
    assert len(port.connections) == 4


def test_without_a_limit_for_addresses_one_may_have_them_all() -> None:
    port = Port(per_address=None)
    for _ in range(8):
        port.connect("10.0.0.1")
    assert port.dropped == []


def test_beyond_the_total_who_has_most_loses_the_connection_that_waits_longest() -> None:
    port = Port(total=6, per_address=None)
    of_others = [port.idle("10.0.0.1"), port.connect("10.0.0.2")]
    of_one = [port.idle("10.0.0.3"), *(port.idle("10.0.0.3") for _ in range(3))]
    newcomer = port.connect("10.0.0.4")
    assert port.dropped == [(of_one[0], Drop.TOTAL, "more than 6 in all")]
    assert not {*of_others, newcomer} & set(port.closed)


@pytest.mark.parametrize("wait", [Wait.HANDSHAKE, Wait.FIRST_REQUEST])
def test_who_has_many_connections_without_a_request_loses_one_before_who_has_more_idle_ones(wait: Wait) -> None:
    """Such as an Ingress, whose connections are many and used."""
    port = Port(total=16, per_address=None)
    for _ in range(10):
        port.idle("10.0.0.1")
    slow, *_ = [port.connect("10.0.0.2", wait) for _ in range(5)]
    newcomer = port.connect("10.0.0.3")
    port.connect("10.0.0.4")
    assert port.closed == [slow]
    assert newcomer not in port.closed


@pytest.mark.parametrize("attack", ["idle", "connect"])
def test_a_newcomer_with_few_connections_keeps_them_however_many_others_come(attack: str) -> None:
    port = Port(total=12, per_address=None)
    for number in range(12):
        getattr(port, attack)(f"10.0.1.{number % 2}")
    newcomer = port.connect("10.0.0.2")
    for number in range(100):
        port.now += 0.05
        getattr(port, attack)(f"10.0.1.{number % 2}")
    assert newcomer not in port.closed
    assert len(port.closed) == 101


def test_a_newcomer_that_shares_the_address_of_an_attacker_has_half_of_the_limit_before_it_goes() -> None:
    """Else whoever fills the limit with idle connections would have every newcomer dropped by the next."""
    port = Port(total=100, per_address=32)
    for _ in range(32):
        port.idle("10.0.0.1")
    newcomer = port.connect("10.0.0.1")
    for _ in range(15):
        port.connect("10.0.0.1")
    assert newcomer not in port.closed
    for _ in range(2):
        port.connect("10.0.0.1")
    assert newcomer in port.closed


def test_a_connection_that_is_answered_never_goes_and_where_all_are_the_newcomer_is_refused() -> None:
    port = Port(total=4, per_address=2)
    served = [port.answering("10.0.0.1"), port.answering("10.0.0.1")]
    refused = port.new("10.0.0.1")
    assert not port.connections.enter(refused, Wait.HANDSHAKE)
    served += [port.answering("10.0.0.2"), port.answering("10.0.0.2")]
    also_refused = port.new("10.0.0.3")
    assert not port.connections.enter(also_refused, Wait.HANDSHAKE)
    port.now += 3600
    port.connections.drop_overdue()
    assert port.closed == []
    assert [(connection, reason) for connection, reason, _ in port.dropped] == [
        (refused, Drop.ADDRESS),
        (also_refused, Drop.TOTAL),
    ]
    port.connections.leave(served[0])
    port.connect("10.0.0.1")


@pytest.mark.parametrize("wait", [wait for wait in Wait if wait is not Wait.NEXT_REQUEST])
def test_a_client_that_takes_too_long_is_dropped_with_the_reason(wait: Wait) -> None:
    port = Port()
    connection = port.connect("10.0.0.1")
    port.now += 4
    port.connections.wait_for(connection, wait)
    port.now += SECONDS[wait] - 0.1
    port.connections.drop_overdue()
    assert port.closed == []
    port.now += 0.1
    port.connections.drop_overdue()
    assert port.closed == [connection]
    assert port.dropped == [(connection, Drop.TIMEOUT, f"{wait.value} within {SECONDS[wait]} s")]


def test_an_idle_connection_ends_without_a_word() -> None:
    port = Port()
    connection = port.idle("10.0.0.1")
    port.now += SECONDS[Wait.NEXT_REQUEST]
    port.connections.drop_overdue()
    assert port.closed == [connection]
    assert port.dropped == []


def test_a_connection_that_has_ended_is_not_known_any_more() -> None:
    port = Port()
    connection = port.connect("10.0.0.1")
    port.connections.leave(connection)
    port.connections.leave(connection)
    port.connections.wait_for(connection, Wait.NEXT_REQUEST)
    port.connections.drop(connection, Drop.LARGE_HEAD, "")
    assert len(port.connections) == 0
    assert not port.connections.make_room(Drop.DESCRIPTORS, "")
    assert (port.closed, port.dropped) == ([], [])


@pytest.mark.parametrize("seed", range(20))
def test_the_limits_hold_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    port = Port(total=12, per_address=chance.choice([None, 3, 20]))
    limit = port.connections._limits.per_address
    alive: set[ClientConnection] = set()
    for _ in range(2000):
        port.now += chance.choice([0, 0.01, 1])
        match chance.randrange(4):
            case 0 if alive:
                port.connections.leave(gone := chance.choice(sorted(alive, key=id)))
                alive.discard(gone)
            case 1 if alive:
                connection = chance.choice(sorted(alive, key=id))
                port.connections.wait_for(connection, chance.choice([*Wait, None]))
            case 2:
                port.connections.drop_overdue()
            case _:
                connection = port.new(f"10.0.0.{chance.randrange(6)}")
                if port.connections.enter(connection, Wait.HANDSHAKE):
                    alive.add(connection)
        alive -= set(port.closed)
        assert len(port.connections) == len(alive) <= 12
        assert limit is None or max(Counter(each.client for each in alive).values(), default=0) <= limit
    port.connections.close_all()
    assert len(port.connections) == 0
    assert port.connections._clients == {}
