"""Pod addresses out of the node's part of 127.0.0.0/8, all of which the loopback interface answers. Pure."""

from ipaddress import IPv4Address, IPv4Network

LOOPBACK = IPv4Network("127.0.0.0/8")
DEFAULT_PREFIX = 24


class AddressPool:
    """Allocates addresses of a range, round-robin, so that a released one is not reused soon."""

    def __init__(self, base: str) -> None:
        """``base`` is a network like ``127.10.0.0/24``; without a prefix length, a /24. ValueError if not loopback."""
        text = base if "/" in base else f"{base}/{DEFAULT_PREFIX}"
        self.network = IPv4Network(text)
        if not self.network.subnet_of(LOOPBACK):
            raise ValueError(f"{base} is not in 127.0.0.0/8, where every address can be used without set-up")
        self._first = int(self.network.network_address) + 1
        self._size = self.network.num_addresses - 2
        if self._size < 1:
            raise ValueError(f"{base} has no room for a pod")
        self._next = 0
        self._used: set[str] = set()

    def take(self) -> str:
        """A free address. RuntimeError if all are taken."""
        for _ in range(self._size):
            address = str(IPv4Address(self._first + self._next))
            self._next = (self._next + 1) % self._size
            if address not in self._used:
                self._used.add(address)
                return address
        raise RuntimeError(f"no free pod address in {self.network}")

    def release(self, address: str) -> None:
        """Release an address; unknown ones are ignored."""
        self._used.discard(address)
