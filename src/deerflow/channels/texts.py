"""Texts of the channels in the languages of people."""

from collections.abc import Mapping
from types import MappingProxyType

EN = MappingProxyType(
    {
        "agent": "Agent: {name}",
        "agent_chosen": "From the next message on, the agent {name} answers.",
        "agents": "Agents:",
        "allowed": "✅ Allowed by {name}, {time} UTC",
        "already_answered": "This has been answered already.",
        "answered": "✅ {choice} – {name}, {time} UTC",
        "approval": "May the agent do this?",
        "approve": "Allow",
        "approve_on_page": "The agent asks for approval of {names}. The call is too long to be shown here: "
        "open the thread on the page to read and allow it.",
        "bad_code": "The code is wrong, used, or older than ten minutes.",
        "bootstrap": "Help me create an agent.",
        "busy": "Busy: {count} message(s) are being answered.",
        "choose": "Choose an answer:",
        "connect_in_private": "Write {mark}connect to me in a private chat.",
        "connected": "Connected. Send me a message; {mark}help lists the commands.",
        "default_chosen": "From the next message on, the default is used.",
        "failed": "The run has failed: {reason}",
        "file_failed": "{name} could not be received: {reason}",
        "file_too_large": "{name} is too large for this chat app. It is in the thread on the page.",
        "first_connect": "I do not know you. Get a code with `deerflow channels code`, then send me: "
        "{mark}connect CODE",
        "goal": "Goal: {text}",
        "help": "Send me a message and the agent answers. Commands:\n"
        "{mark}new – begin a new thread\n{mark}status – state of this thread\n{mark}models – list the models\n"
        "{mark}model NAME – use a model in this chat\n{mark}mode NAME – flash, thinking, pro or ultra\n"
        "{mark}agents – list your agents\n{mark}agent NAME – use an agent in this chat\n"
        "{mark}bootstrap – create an agent\n"
        "{mark}goal WORDS – set a goal\n{mark}memory – what is remembered about you\n"
        "{mark}stop – stop the answer\n{mark}connect CODE – connect this chat account\n{mark}help – this list",
        "idle": "Idle.",
        "memory": "Remembered about you ({count}):",
        "mode_chosen": "From the next message on, the mode is {name}.",
        "model": "Model: {name}",
        "model_chosen": "From the next message on, {name} answers.",
        "models": "Models:",
        "modes": "Modes:",
        "new": "The next message begins a new thread.",
        "no_agent": "You have no agent {name}. {mark}agents lists them.",
        "no_agents": "You have no agents of your own. {mark}bootstrap creates one.",
        "no_goal": "Write the goal after the command: {mark}goal WORDS",
        "no_memory": "Nothing is remembered about you.",
        "no_mode": "There is no mode {name}. {mark}mode lists them.",
        "no_model": "There is no model {name}. {mark}models lists them.",
        "no_thread": "There is no thread in this chat yet.",
        "not_stopped": "Nothing is being answered.",
        "not_yours": "Only the person who asked can press this.",
        "nothing_to_read": "I can read text, pictures and documents.",
        "reject": "Reject",
        "rejected": "⛔ Rejected by {name}, {time} UTC",
        "repeat": "↻ Sent again: the connection was lost, so you may have this message already.",
        "stop": "Stop",
        "stopped": "Stopped.",
        "thread": "Thread: {title}",
        "unexpected": "This could not be handled. The log of the server has the reason.",
        "untitled": "untitled",
        "waits": "It waits for your answer.",
    }
)
ZH = MappingProxyType(
    {
        "agent": "智能体：{name}",
        "agent_chosen": "从下一条消息起由智能体 {name} 回答。",
        "agents": "智能体：",
        "allowed": "✅ {name} 已允许，{time} UTC",
        "already_answered": "这个问题已经回答过了。",
        "answered": "✅ {choice} – {name}，{time} UTC",
        "approval": "允许智能体这样做吗？",
        "approve": "允许",
        "approve_on_page": "智能体请求批准 {names}。调用内容太长，无法在此显示：请在网页中打开对话，查看后再允许。",
        "bad_code": "连接码错误、已使用，或已超过十分钟。",
        "bootstrap": "帮我创建一个智能体。",
        "busy": "忙碌：正在回答 {count} 条消息。",
        "choose": "请选择一个回答：",
        "connect_in_private": "请在私聊中向我发送 {mark}connect。",
        "connected": "已连接。给我发消息吧；{mark}help 列出所有命令。",
        "default_chosen": "从下一条消息起使用默认设置。",
        "failed": "运行失败：{reason}",
        "file_failed": "无法接收 {name}：{reason}",
        "file_too_large": "{name} 对此聊天应用来说太大。可在网页的对话中查看。",
        "first_connect": "我还不认识你。请用 `deerflow channels code` 获取连接码，然后发送：{mark}connect 连接码",
        "goal": "目标：{text}",
        "help": "给我发消息，智能体会回答。命令：\n"
        "{mark}new – 开始新对话\n{mark}status – 此对话的状态\n{mark}models – 列出模型\n"
        "{mark}model 名称 – 在此聊天中使用某个模型\n{mark}mode 名称 – flash、thinking、pro 或 ultra\n"
        "{mark}agents – 列出你的智能体\n{mark}agent 名称 – 在此聊天中使用某个智能体\n{mark}bootstrap – 创建智能体\n"
        "{mark}goal 目标 – 设定目标\n{mark}memory – 关于你的记忆\n"
        "{mark}stop – 停止回答\n{mark}connect 连接码 – 连接此聊天账号\n{mark}help – 本列表",
        "idle": "空闲。",
        "memory": "关于你的记忆（{count}）：",
        "mode_chosen": "从下一条消息起使用模式 {name}。",
        "model": "模型：{name}",
        "model_chosen": "从下一条消息起由 {name} 回答。",
        "models": "模型：",
        "modes": "模式：",
        "new": "下一条消息将开始新对话。",
        "no_agent": "你没有智能体 {name}。{mark}agents 列出所有智能体。",
        "no_agents": "你还没有自己的智能体。{mark}bootstrap 可以创建一个。",
        "no_goal": "请在命令后写出目标：{mark}goal 目标",
        "no_memory": "没有关于你的记忆。",
        "no_mode": "没有模式 {name}。{mark}mode 列出所有模式。",
        "no_model": "没有模型 {name}。{mark}models 列出所有模型。",
        "no_thread": "此聊天中还没有对话。",
        "not_stopped": "没有正在进行的回答。",
        "not_yours": "只有提问的人可以按此按钮。",
        "nothing_to_read": "我可以阅读文字、图片和文档。",
        "reject": "拒绝",
        "rejected": "⛔ {name} 已拒绝，{time} UTC",
        "repeat": "↻ 重新发送：连接曾中断，你可能已经收到过这条消息。",
        "stop": "停止",
        "stopped": "已停止。",
        "thread": "对话：{title}",
        "unexpected": "无法处理这条消息，原因见服务器日志。",
        "untitled": "无标题",
        "waits": "正在等待你的回答。",
    }
)
LANGUAGES: Mapping[str, Mapping[str, str]] = MappingProxyType({"en": EN, "zh": ZH})


def choose_language(tag: str) -> str:
    """Return the language of texts for a language tag such as `zh-hans`."""
    language = tag.partition("-")[0].lower()
    return language if language in LANGUAGES else "en"


def translate(language: str, key: str, mark: str = "/", **values: object) -> str:
    """Return a text in a language; `mark` is the first character of commands."""
    return LANGUAGES.get(language, EN)[key].format(mark=mark, **values)
