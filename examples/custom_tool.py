"""Custom tool: a Python function that the agent can call. Its docstring is the description for the model."""

from deerflow.client import DeerFlowClient
from deerflow.testing import ScriptedModel, calling

PRICES = {"apple": 1.2, "pear": 0.9}


def get_price(product: str) -> str:
    """Return the price of a product in euros.

    Args:
        product: Name of the product, in lower case.
    """
    return f"{PRICES[product]:.2f} EUR" if product in PRICES else f"unknown product: {product}"


def main() -> None:
    """Ask for a price."""
    # `use` is "module:name", as in config.yaml. The list replaces the default tools for web search and web pages.
    tools = [{"name": "get_price", "group": "shop", "use": "custom_tool:get_price"}]
    # Remove `model=` to use the model of your configuration.
    model = ScriptedModel.saying(calling("get_price", product="pear"), "A pear costs 0.90 EUR.")
    with DeerFlowClient({"tools": tools}, model=model) as client:
        print(client.chat("How much is a pear?"))
    print("Tool result:", model.requests[1].messages[-1].text)


if __name__ == "__main__":
    main()
