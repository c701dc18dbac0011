"""How many tokens a request can be at most, and what can be believed of what models say they took."""

from dataclasses import dataclass, field

from deerflow.domain.budget import Answered, Asking, Grant


def is_credible(grant: Grant, answered: Answered) -> bool:
    """Whether what a model says it took can be: it read what it was sent, and wrote what came."""
    counts, asking = answered.counts, grant.asking
    if counts.unmetered_calls:
        return False
    reads = asking.prompt.least_tokens <= counts.input_tokens <= grant.prompt_tokens
    return reads and answered.least_tokens <= counts.output_tokens <= grant.output_tokens


@dataclass(slots=True)
class Gauge:
    """Knows how many tokens a request can be at most: a byte is a token, but for what was counted before."""

    replies: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """For the ids of replies: the model, the bytes sent and received up to there, and its own count of them."""
    beginnings: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many tokens a request was, for the model and the fixed part it began with: that part is no more."""

    def most_tokens(self, asking: Asking) -> int:
        """What the model cannot count more than."""
        prompt = asking.prompt
        bounds = [prompt.bytes]
        beginning = self.beginnings.get((asking.model, prompt.fixed_key))
        if beginning is not None:
            bounds.append(beginning + prompt.messages)
        known = self.replies.get(prompt.after or "")
        if known is not None and known[0] == asking.model and known[1] <= prompt.bytes:
            bounds.append(known[2] + prompt.bytes - known[1])
        return min(bounds)

    def learn(self, asking: Asking, answered: Answered) -> None:
        """Take in what a model counted."""
        prompt, counts = asking.prompt, answered.counts
        key = (asking.model, prompt.fixed_key)
        self.beginnings[key] = min(self.beginnings.get(key, counts.input_tokens), counts.input_tokens)
        if answered.message_id is not None:
            whole = prompt.bytes + answered.bytes
            self.replies[answered.message_id] = (asking.model, whole, counts.total_tokens)
