"""Which model was asked, as the bill says it."""

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from deerflow.models.factory import ENTRY


def name_of(model: BaseChatModel, message: AIMessage | None) -> str:
    """How the configuration calls `model`; one that is not in it is called as it calls itself."""
    entry = (model.metadata or {}).get(ENTRY)
    said = message.response_metadata.get("model_name") if message is not None else None
    return str(entry or said or getattr(model, "model_name", None) or model._llm_type)
