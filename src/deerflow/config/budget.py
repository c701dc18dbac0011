"""`budget:` — what one run may take of its models, whoever asks them."""

from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field

from deerflow.config.models import as_written
from deerflow.config.section import Section

Amount = Annotated[Decimal, BeforeValidator(as_written), Field(gt=0, max_digits=12, decimal_places=6)]


class BudgetConfig(Section):
    """The ceiling of every run; a request can lower it, never raise it."""

    max_tokens: int | None = Field(
        default=None, ge=1000, description="How many tokens the models of a run may read and write in all."
    )
    max_cost: Amount | None = Field(
        default=None, description="What they may cost in all; every model then needs its `pricing`."
    )
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3,8}$", description="The currency of `max_cost`.")
