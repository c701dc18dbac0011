"""`skill_evolution:` — whether agents may make and change skills, and who looks at what they write."""

from pydantic import Field

from deerflow.config.section import Section


class SkillEvolutionConfig(Section):
    """Agents that write down what they have learned."""

    enabled: bool = Field(default=False, description="Whether agents may make and change custom skills.")
    moderation_model_name: str | None = Field(
        default=None, description="Which model reviews what agents write and people install; the default when absent."
    )
    security_fail_closed: bool = Field(
        default=True,
        description="Whether skills without scripts, too, are refused without a review. Those with scripts always are.",
    )
    timeout_seconds: float = Field(default=60, gt=0, le=600, strict=False, description="How long a review may take.")
