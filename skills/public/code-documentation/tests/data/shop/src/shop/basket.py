"""What a customer wants to buy."""

TAX = 0.19


class Basket:
    """Things and how many of them."""

    def add(self, name: str, count: int = 1) -> None:
        """Put something in.

        Args:
            name: What it is called.
        """

    def total(self):
        return 0

    def _secret(self) -> None:
        pass


async def send(basket: Basket) -> str:
    """Send a basket off and give the number of the order."""
    return "1"
