"""Addresses that connections of users may go to."""

from socket import AF_UNSPEC, AddressFamily

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from deerflow.domain.errors import AddressRefused
from deerflow.models.openai_compatible.endpoint import PublicResolver, is_global


class Names(AbstractResolver):
    """Resolver with one answer after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)

    async def resolve(self, host: str, port: int = 0, family: AddressFamily = AF_UNSPEC) -> list[ResolveResult]:
        found = self._answers.pop(0)
        return [ResolveResult(hostname=host, host=each, port=port, family=family, proto=0, flags=0) for each in found]

    async def close(self) -> None:
        return


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.100.100.200", "::1", "fd00:ec2::254", "fe80::1%eth0"]
    + ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "0.0.0.0"],
)
def test_private_and_embedded_addresses_are_not_global(address: str) -> None:
    assert not is_global(address)


async def test_every_lookup_is_checked_and_one_private_address_is_enough_to_refuse() -> None:
    resolver = PublicResolver(Names(["93.184.215.14"], ["93.184.215.14", "10.0.0.1"]))
    assert [each["host"] for each in await resolver.resolve("models.example", 443)] == ["93.184.215.14"]
    with pytest.raises(AddressRefused):
        await resolver.resolve("models.example", 443)
    await resolver.close()
