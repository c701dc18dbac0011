"""Commands of chats. Each returns its reply, and the chat as it is afterwards if it has changed."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from deerflow.channels.queries import ChatThread
from deerflow.channels.settings import AGENT, MODE, MODEL, MODES, AnswerSettings
from deerflow.channels.texts import translate
from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.memory import MemoryScope
from deerflow.harness import Harness

MAX_FACTS = 20
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class CommandCall:
    """Command of a person in a chat; `chat` is None before the first message."""

    who: Principal
    language: str
    argument: str
    chat: ChatThread | None
    new_chat: Callable[[str], ChatThread]
    """Returns the chat with another thread."""
    mark: str
    """First character of commands in this chat."""
    answer: AnswerSettings = AnswerSettings()
    """Who answers in the chat now."""

    def say(self, key: str, **values: object) -> str:
        """Return a text in the language of the person."""
        return translate(self.language, key, self.mark, **values)


@dataclass(frozen=True, slots=True)
class CommandReply:
    """Reply to a command, and the chat to be stored."""

    text: str
    chat: ChatThread | None = None


@dataclass(frozen=True, slots=True)
class ChatCommands:
    """Commands of all chats. Other words with a slash are meant for the agent, which has skills of such names."""

    harness: Harness
    _table: Mapping[str, Callable[[CommandCall], Awaitable[CommandReply]]] = field(init=False)

    def __post_init__(self) -> None:
        table = {
            "/help": self._help,
            "/start": self._help,
            "/new": self._new,
            "/status": self._status,
            "/models": self._models,
            "/model": self._model,
            "/agents": self._agents,
            "/agent": self._agent,
            "/mode": self._mode,
            "/goal": self._goal,
            "/memory": self._memory,
            "/stop": self._stop,
        }
        object.__setattr__(self, "_table", MappingProxyType(table))

    def has(self, name: str) -> bool:
        """Return whether there is such a command."""
        return name in self._table

    async def run(self, name: str, call: CommandCall) -> CommandReply:
        """Carry out a command."""
        return await self._table[name](call)

    async def stop(self, who: Principal, thread_id: str) -> int:
        """Stop the runs of a thread and return their number."""
        count = 0
        for run in reversed(await self.harness.threads.unfinished_runs(who, thread_id)):  # those that wait first
            with suppress(Conflict, NotFound):
                await self.harness.runs.cancel(thread_id, run.run_id, who)
                count += 1
        return count

    async def _help(self, call: CommandCall) -> CommandReply:
        return CommandReply(call.say("help"))

    async def _new(self, call: CommandCall) -> CommandReply:
        return CommandReply(call.say("new"), call.new_chat(new_id()))

    async def _status(self, call: CommandCall) -> CommandReply:
        if call.chat is None:
            return CommandReply(call.say("no_thread"))
        try:
            thread = await self.harness.threads.get(call.chat.thread_id, call.who)
        except NotFound:
            return CommandReply(call.say("no_thread"))
        busy = len(await self.harness.threads.unfinished_runs(call.who, thread.thread_id))
        state = call.say("busy", count=busy) if busy else call.say("waits" if thread.waits_for else "idle")
        title = thread.title or call.say("untitled")
        model = self._describe_model(call)
        return CommandReply("\n".join([call.say("thread", title=title), call.say("model", name=model), state]))

    def _describe_model(self, call: CommandCall) -> str:
        cards = self.harness.core.agents.model_cards(call.who.user_id)
        return str(call.answer.model or (cards[0].name if cards else "–"))

    async def _models(self, call: CommandCall) -> CommandReply:
        names = [card.name for card in self.harness.core.agents.model_cards(call.who.user_id)]
        return CommandReply(list_names(call.say("models"), names, self._describe_model(call)))

    async def _model(self, call: CommandCall) -> CommandReply:
        names = [card.name for card in self.harness.core.agents.model_cards(call.who.user_id)]
        if not call.argument:
            return CommandReply(call.say("model", name=self._describe_model(call)))
        return choose(call, MODEL, names, "no_model", "model_chosen")

    async def _agents(self, call: CommandCall) -> CommandReply:
        names = await self._agent_names(call)
        if not names:
            return CommandReply(call.say("no_agents"))
        return CommandReply(list_names(call.say("agents"), names, call.answer.agent))

    async def _agent(self, call: CommandCall) -> CommandReply:
        if not call.argument:
            return CommandReply(call.say("agent", name=call.answer.agent or DEFAULT))
        return choose(call, AGENT, await self._agent_names(call), "no_agent", "agent_chosen")

    async def _agent_names(self, call: CommandCall) -> Sequence[str]:
        await self.harness.core.shares.refresh(call.who.user_id)
        agents = await asyncio.to_thread(self.harness.core.custom_agents.list, call.who.user_id)
        return [agent.name for agent in agents]

    async def _mode(self, call: CommandCall) -> CommandReply:
        if not call.argument:
            return CommandReply(list_names(call.say("modes"), MODES, call.answer.mode))
        return choose(call, MODE, MODES, "no_mode", "mode_chosen")

    async def _goal(self, call: CommandCall) -> CommandReply:
        return CommandReply(call.say("no_goal"))

    async def _memory(self, call: CommandCall) -> CommandReply:
        state = await self.harness.resources.memory.read(MemoryScope(call.who.user_id))
        facts = [fact.content for fact in state.facts]
        if not facts:
            return CommandReply(call.say("no_memory"))
        shown = [f"- {fact}" for fact in facts[-MAX_FACTS:]]
        return CommandReply("\n".join([call.say("memory", count=len(facts)), "", *shown]))

    async def _stop(self, call: CommandCall) -> CommandReply:
        stopped = 0 if call.chat is None else await self.stop(call.who, call.chat.thread_id)
        return CommandReply(call.say("stopped" if stopped else "not_stopped"))


def list_names(title: str, names: Sequence[str], current: str | None) -> str:
    """Return a title and a list of names, the current one in bold."""
    return "\n".join([title, "", *(f"- **{name}**" if name == current else f"- {name}" for name in names)])


def choose(call: CommandCall, setting: str, names: Sequence[str], unknown: str, chosen: str) -> CommandReply:
    """Return the chat with a setting from `names`, or without it if the argument is `default`."""
    chat = call.chat or call.new_chat(new_id())
    settings = {key: value for key, value in chat.settings.items() if key != setting}
    if call.argument == DEFAULT:
        return CommandReply(call.say("default_chosen"), replace(chat, settings=settings))
    if call.argument not in names:
        return CommandReply(call.say(unknown, name=call.argument))
    settings[setting] = call.argument
    return CommandReply(call.say(chosen, name=call.argument), replace(chat, settings=settings))
