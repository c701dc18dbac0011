"""Addresses at which models may be reached."""

from collections.abc import Sequence

import pytest

from deerflow.domain.errors import AddressRefused
from deerflow.services.model_connections import check_host

METADATA = ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "fe80::1", "::ffff:169.254.169.254")
PRIVATE = ("127.0.0.1", "::1", "10.1.2.3", "192.168.1.5", "172.16.0.9", "fd12::1")


async def find_nothing(name: str) -> Sequence[str]:
    raise AssertionError(f"{name} was looked up")


@pytest.mark.parametrize("allows_private", [True, False])
@pytest.mark.parametrize("address", METADATA)
async def test_addresses_of_cloud_metadata_are_refused_for_all_users(address: str, allows_private: bool) -> None:
    with pytest.raises(AddressRefused):
        await check_host(find_nothing, address, allows_private=allows_private)

    async def resolve(name: str) -> Sequence[str]:
        return ["93.184.215.14", address]

    with pytest.raises(AddressRefused, match="models.example"):
        await check_host(resolve, "models.example", allows_private=allows_private)


@pytest.mark.parametrize("address", PRIVATE)
async def test_private_addresses_are_for_the_local_user_and_admins(address: str) -> None:
    await check_host(find_nothing, address, allows_private=True)
    with pytest.raises(AddressRefused):
        await check_host(find_nothing, address, allows_private=False)


async def test_public_addresses_are_allowed_and_malformed_names_refused_for_all_users() -> None:
    await check_host(find_nothing, "93.184.215.14", allows_private=False)
    for name in ("2130706433", "0x7f.1", "bad_name!", ""):
        with pytest.raises(AddressRefused):
            await check_host(find_nothing, name, allows_private=True)
