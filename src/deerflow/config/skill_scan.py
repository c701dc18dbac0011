"""`skill_scan:` — whether skills are looked at by fixed rules before they are taken in."""

from pydantic import Field

from deerflow.config.section import Section


class SkillScanConfig(Section):
    """The rules that refuse a skill which is openly bad."""

    enabled: bool = Field(default=True, description="Whether the rules are asked; without them anything is taken in.")
