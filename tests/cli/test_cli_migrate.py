"""`deerflow config migrate`: a project of the public DeerFlow becomes one of ours."""

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml
from click.testing import Result
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from redis.asyncio import Redis
from typer.testing import CliRunner

from deerflow.cli.config import app
from deerflow.cli.main import build_app
from deerflow.cli.migration import RULES_BY_KEY, UNKNOWN, convert_config, convert_extensions
from deerflow.config.load import PublicConfigFound, load
from deerflow.config.loader.document import format_path
from deerflow.config.root import Config, is_public_config
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import MemoryScope
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel, ScriptedServer, calling
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.testing.scripted_server import ServerTurn
from tests.cli.public_project import PUBLIC, drop_value, find_leaves
from tests.e2e.server_process import DEERFLOW, serve
from tests.harness.support import ask_successfully
from tests.sandbox.support import act, tool_results
from tests.skills.support import write_skill

ROOT = Path(__file__).parents[2]
EXTENSIONS = {
    "mcpServers": {
        "github": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "$A"}, "colour": "red"},
        "empty": {"enabled": False, "type": "http", "url": ""},
    },
    "middlewares": ["a:B"],
    "skills": {"deep-research": {"enabled": False}},
}

Command = Callable[..., Result]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(PUBLIC)
    return tmp_path


@pytest.fixture
def migrate(project: Path) -> Command:
    """Return a function that migrates the project at `tmp_path`."""

    def run(*arguments: str) -> Result:
        environment = {"DEER_FLOW_PROJECT_ROOT": str(project), "DEER_FLOW_HOME": str(project / ".deer-flow")}
        return CliRunner().invoke(app, ["migrate", *arguments], env=environment)

    return run


def test_converts_what_has_a_counterpart() -> None:
    made = convert_config(yaml.safe_load(PUBLIC)).settings

    assert Config.model_validate(made, by_alias=True)
    assert (made["config_version"], made["log_level"], made["budget"]) == (1, "warning", {"max_tokens": 200000})
    assert made["models"][0] == {
        "name": "deepseek",
        "use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel",
        "model": "deepseek-v4-pro",
        "api_key": "$DEEPSEEK_API_KEY",
        "timeout": 600.0,
        "supports_thinking": True,
        "when_thinking_enabled": {"extra_body": {"thinking": {"type": "enabled"}}},
        "pricing": {"currency": "CNY", "input": 8.0, "output": 32.0, "cached_input": 0.8},
        "base_url": "https://api.deepseek.com/v1",
    }
    assert made["models"][1]["max_retries"] == 2  # the class of the vendor has this setting
    assert [tool["name"] for tool in made["tools"]] == ["web_search", "image_search", "own"]
    assert made["tools"][1]["use"] == "deerflow.community.ddg_search.tools:image_search_tool"
    assert made["tools"][2] == {"name": "own", "group": "web", "use": "my_package:my_tool", "speed": 3}
    assert made["memory"] == {
        "mode": "automatic",
        "debounce_seconds": 45,
        "max_facts": 50,
        "correction_tokens": 300,
    }
    assert (made["skills"], made["database"]) == ({"index_limit": 0}, {"lease_seconds": 60})


def test_lists_everything_else_with_a_reason() -> None:
    left_out = {each.key: each.reason for each in convert_config(yaml.safe_load(PUBLIC)).left_out}

    assert all(left_out.values())
    assert set(left_out) == {
        "token_usage",
        "token_budget.enabled",
        "token_budget.warn_threshold",
        "models[0].max_retries",
        "models[2] (plan)",
        "tool_groups",
        "tools[0] (web_search).backend",
        "tools[2] (web_fetch)",
        "sandbox.overflow_policy",
        "skills.container_path",
        "memory.manager_class",
        "memory.backend_config.staleness_age_days",
        "database.backend",
        "database.sqlite_dir",
        "database.pool_recycle",
        "channels.slack",
        "scheduler",
        "mystery",
        "title.max_words",
    }
    assert left_out["title.max_words"] == "must be at most 20, not 600"


COMPLETE = Path(__file__).with_name("public_config.yaml")


@pytest.mark.slow
def test_nothing_of_a_complete_file_is_lost_silently() -> None:
    public = yaml.safe_load(COMPLETE.read_text())
    made = convert_config(public)
    told = [re.sub(r" \(.*?\)", "", each.key) for each in made.left_out]
    leaves = [path for path in find_leaves(public) if path != ("config_version",)]
    assert len(leaves) > 200
    untold = [path for path in leaves if not format_path(path).startswith(tuple(told))]
    lost = [path for path in untold if convert_config(drop_value(public, path)) == made]
    # Tools that every agent has are named by their names alone.
    assert [path for path in lost if path[0] != "tools" or path[-1] != "group"] == []


GUARD = """
from deerflow.guardrails.providers import GuardrailDecision, GuardrailReason

class Guard:
    name = "guard"

    def __init__(self, level):
        self.level = level

    async def aevaluate(self, request):
        reason = GuardrailReason("level", f"not at level {self.level}")
        return GuardrailDecision(allow=request.tool_name != "ls", reasons=(reason,))
"""


@pytest.mark.slow
async def test_a_complete_file_starts_answers_and_uses_its_skills(
    project: Path, migrate: Command, redis_url: str
) -> None:
    write_skill(project / "skills" / "public", "house-style", body="Write short sentences.\n")
    write_skill(project / "skills" / "custom", "tidy-up", body="Sort the files.\n")
    (project / "data").mkdir()
    (project / "data" / "table.csv").write_text("1,2\n")
    (project / "my_package.py").write_text(GUARD)
    (project / ".env").write_text(f"OPENAI_API_KEY=k\nPROVISIONER_KEY=k\nTELEGRAM_TOKEN={TOKEN}\n")
    turns: list[ServerTurn] = [
        calling("describe_skill", name="tidy-up"),
        act("read_file", path="/mnt/skills/custom/tidy-up/SKILL.md"),
        act("read_file", path="/mnt/skills/public/house-style/SKILL.md"),
        act("bash", command="cat /mnt/data/table.csv; echo $MODE"),
        act("ls", path="/mnt/data"),
        "Tidied.",
    ]
    async with ScriptedServer(turns) as model, FakeTelegram() as telegram:
        # The addresses and the folder of the example are those of its author; nothing else is changed.
        here = {
            "https://models.example/v1": model.base_url,
            "redis_url: redis://127.0.0.1": f"redis_url: {redis_url}",
            "/srv/data": str(project / "data"),
        }
        text = COMPLETE.read_text()
        for theirs, ours in here.items():
            text = text.replace(theirs, ours)
        (project / "config.yaml").write_text(text)
        done = await asyncio.to_thread(migrate)
        assert done.exit_code == 0, done.output
        # The public DeerFlow always uses the address of Telegram.
        migrated = (project / "config.yaml").read_text()
        token = "    bot_token: $TELEGRAM_TOKEN\n"
        assert token in migrated
        (project / "config.yaml").write_text(migrated.replace(token, f"{token}    base_url: {telegram.base_url}\n"))
        with serve(project, config=project / "config.yaml", program=DEERFLOW) as server:
            body = {"input": {"messages": [{"role": "user", "content": "Tidy up"}]}}
            async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=60) as http:
                state = (await http.post("/threads/t/runs/wait", json=body)).json()
                names = [each["name"] for each in (await http.get("/tools")).json()["tools"]]
            async with asyncio.timeout(30):
                await telegram.wait_until(lambda: telegram.polls)
            async with Redis.from_url(redis_url) as redis:
                assert any(int(each["sub"]) or int(each["psub"]) for each in await redis.client_list())

    results = [message["content"] for message in state["messages"] if message["type"] == "tool"]
    assert state["messages"][-1]["content"] == "Tidied."
    assert "Does one thing well." in results[0]
    assert "Sort the files." in results[1]
    assert "Write short sentences." in results[2]
    assert results[3] == "1,2\ntest"
    assert "not at level 2" in results[4]
    assert {"web_search", "web_fetch", "image_search"} <= set(names)
    assert {request.model for request in model.requests} == {"gpt-4.1"}


def test_converts_the_extensions() -> None:
    made = convert_extensions(EXTENSIONS)

    assert made.settings == {
        "mcpServers": {
            "github": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "$A"}},
        },
        "skills": {"deep-research": {"enabled": False}},
    }
    assert {each.key: each.reason for each in made.left_out} == {
        "mcpServers.github.colour": "the public DeerFlow has no such key, and neither has this one",
        "middlewares": "middlewares are passed in Python: `extra_middleware`",
        "mcpServers.empty.url": "must not be empty",
        "mcpServers.empty": "a server of type 'http' needs 'url'",
    }


def test_recognizes_configurations_of_the_public_project() -> None:
    assert is_public_config({"config_version": 34})
    assert is_public_config({"database": {"backend": "sqlite"}})
    assert is_public_config({"token_usage": None})
    assert is_public_config({"sandbox": {"use": "src.sandbox.local:LocalSandboxProvider"}})
    assert not is_public_config({"tools": [{"name": "own", "use": "src.tools:own"}]})
    assert not is_public_config({"config_version": 1, "database": {"url": None}, "models": []})


def test_a_server_says_in_one_line_what_to_do_with_such_a_file(project: Path) -> None:
    (project / "extensions_config.json").write_text(json.dumps(EXTENSIONS))
    with pytest.raises(PublicConfigFound) as raised:
        load(directory=project, environment={})
    assert str(raised.value) == (
        "config.yaml: this is a configuration of the public DeerFlow; run: deerflow config migrate config.yaml"
    )


def test_serve_does_not_start_with_such_a_file(project: Path) -> None:
    result = CliRunner().invoke(build_app(["serve"]), ["serve", "--config", str(project / "config.yaml")])
    assert isinstance(result.exception, PublicConfigFound)


def test_settings_of_other_providers_are_named_as_such() -> None:
    cloud = {"use": "deerflow.community.tenki:TenkiSandboxProvider", "cpu_cores": 2}
    made = convert_config({"config_version": 34, "sandbox": cloud, "memory": {"guaranteed_categories": []}})

    assert {each.key: each.reason for each in made.left_out} == {
        "sandbox.use": f"there is no provider {cloud['use']!r} here; the local one is used",
        "sandbox.cpu_cores": "belongs to a provider that does not exist here",
        "memory.guaranteed_categories": "memory is a ledger with its own rules",
    }


def test_telegram_is_taken_over_with_its_people() -> None:
    telegram = {"enabled": False, "bot_token": "$TOKEN", "allowed_users": [7, "ann"]}
    made = convert_config({"config_version": 34, "channels": {"telegram": {**telegram, "rich_messages": True}}})

    assert made.settings["channels"] == {"telegram": telegram}
    assert [each.key for each in made.left_out] == ["channels.telegram.rich_messages"]


def test_slack_is_taken_over_with_its_people() -> None:
    slack = {"enabled": True, "bot_token": "$BOT", "app_token": "$APP", "allowed_users": ["U7"]}
    made = convert_config({"config_version": 34, "channels": {"slack": slack}})

    assert made.settings["channels"] == {"slack": slack}
    assert made.left_out == []


@pytest.mark.parametrize("domain", ["feishu", "https://open.larksuite.com"])
def test_feishu_is_taken_over(domain: str) -> None:
    feishu = {"enabled": True, "app_id": "$ID", "app_secret": "$SECRET", "domain": domain}
    made = convert_config({"config_version": 34, "channels": {"feishu": {**feishu, "session": {}}}})

    assert made.settings["channels"] == {"feishu": feishu}
    assert [each.key for each in made.left_out] == ["channels.feishu.session"]


def test_settings_that_a_tool_rejects_are_left_out() -> None:
    tool = {"name": "web_search", "group": "web", "use": "deerflow.community.tavily.tools:web_search_tool"}
    made = convert_config({"config_version": 34, "tools": [{**tool, "max_results": 5000}]})

    assert made.settings["tools"] == [tool]
    assert [each.key for each in made.left_out] == ["tools[0] (web_search): max_results"]


def test_keeps_the_old_files_and_writes_valid_ones(project: Path, migrate: Command) -> None:
    extensions = project / "extensions_config.json"
    extensions.write_text(json.dumps(EXTENSIONS))
    (project / "config.yaml.before-migration").write_text("older")

    result = migrate()

    assert result.exit_code == 0, result.output
    assert (project / "config.yaml.before-migration").read_text() == "older"
    assert (project / "config.yaml.before-migration-2").read_text() == PUBLIC
    assert json.loads((project / "extensions_config.json.before-migration").read_text()) == EXTENSIONS
    written = (project / "config.yaml").read_text()
    assert "#   channels.slack: " in written
    assert "config.yaml: not taken over: mystery: " in result.output
    environment = {"DEEPSEEK_API_KEY": "k", "OPENAI_API_KEY": "k", "A": "a"}
    assert load(directory=project, environment=environment).config.models[0].name == "deepseek"
    assert "is not a configuration of the public DeerFlow" in migrate().output


def test_a_dry_run_writes_nothing(project: Path, migrate: Command) -> None:
    assert "not taken over" in migrate("--dry-run").output
    assert [path.name for path in project.iterdir()] == ["config.yaml"]


def read_guide_table() -> dict[str, tuple[str, str]]:
    """Return the table of settings in the guide: what becomes of each key, and the remark."""
    text = (ROOT / "docs" / "guides" / "migrating.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    return {row[1].strip().strip("`"): (row[2].strip().strip("`"), row[3].strip()) for row in rows if len(row) == 5}


def test_the_guide_lists_every_key() -> None:
    expected = {
        rule.key: ("the same" if rule.becomes == rule.key else rule.becomes or "–", rule.note)
        for rule in RULES_BY_KEY.values()
    }
    assert read_guide_table() == expected


def test_the_guide_covers_every_key_of_a_complete_file() -> None:
    table, public = read_guide_table(), yaml.safe_load(COMPLETE.read_text())
    paths = [[key for key in path if isinstance(key, str)] for path in find_leaves(public)]
    assert [path for path in paths if not any(".".join(path[:end]) in table for end in range(1, len(path) + 1))] == []
    assert UNKNOWN not in [each.reason for each in convert_config(public).left_out]


def write_public_home(home: Path) -> None:
    """Write a state directory of the public project."""
    user = home / "users" / "default"
    write_skill(user / "skills" / "custom", "tidy-up")
    write_skill(user / "skills" / "custom", "quiet")
    (user / "skills" / "_skill_states.json").write_text(json.dumps({"quiet": {"enabled": False}}))
    agent = user / "agents" / "helper"
    agent.mkdir(parents=True)
    (agent / "config.yaml").write_text("name: helper\ndescription: Helps.\nskills: []\ngithub: {bindings: []}\n")
    (agent / "SOUL.md").write_text("You are kind.")
    summary = {"summary": "Builds agents.", "updatedAt": "2026-05-01T09:30:00Z"}
    (user / "memory.json").write_text(json.dumps({"version": "2.0", "user": {"workContext": summary}}))
    fact = user / "agents" / "__default__" / "facts" / "ab" / "fact_1.md"
    fact.parent.mkdir(parents=True)
    source = "source: {type: conversation, threadId: t1}"
    header = f"id: fact_1\ncategory: preference\nconfidence: 0.9\ncreatedAt: '2026-05-01T09:30:00Z'\n{source}"
    fact.write_text(f"---\n{header}\n---\n\n# Likes tea\n\nLikes tea\n")
    files = user / "threads" / "t1" / "user-data" / "outputs"
    files.mkdir(parents=True)
    (files / "report.md").write_text("# Report")
    write_public_database(home / "data" / "deerflow.db")


def write_public_database(file: Path) -> None:
    """Write a SQLite file with one thread of the user and one of somebody else."""
    file.parent.mkdir(parents=True)
    serializer = JsonPlusSerializer()
    messages = [HumanMessage("Write a report", id="h1"), AIMessage("Done.", id="a1")]
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent TEXT, "
            "type TEXT, checkpoint BLOB, metadata BLOB)"
        )
        connection.execute("CREATE TABLE threads_meta (thread_id TEXT, user_id TEXT, display_name TEXT)")
        for thread, owner in (("t1", "default"), ("t2", "somebody")):
            connection.execute("INSERT INTO threads_meta VALUES (?, ?, ?)", (thread, owner, "A report"))
            for number in (1, 2):
                state = {"v": 4, "id": str(number), "channel_values": {"messages": messages[:number]}}
                row = (thread, "", str(number), None, *serializer.dumps_typed(state), b"{}")
                connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()


async def test_a_migrated_project_starts_answers_and_uses_its_skills(project: Path, migrate: Command) -> None:
    write_public_home(project / ".deer-flow")
    output = (await asyncio.to_thread(migrate)).output  # it has an event loop of its own
    assert [line.partition(";")[0] for line in output.splitlines()[-7:]] == [
        "skill quiet: taken over",
        "skill tidy-up: taken over",
        "agent helper: taken over",
        "agent helper: not taken over: github: unknown key",
        "memory: taken over, 2 entries",
        "thread t1: taken over, 2 messages",
        "check the result with: deerflow config check",
    ], output

    environment = {"DEEPSEEK_API_KEY": "k", "OPENAI_API_KEY": "k", "A": "a"}
    source = open_source(directory=project, environment=environment, overrides={"tools": []})
    path = "/mnt/skills/custom/tidy-up/SKILL.md"
    model = ScriptedModel.saying(act("read_file", path=path), "Tidied.")
    async with open_harness(source, model) as harness:
        await ask_successfully(harness)
        assert "tidy-up" in (await tool_results(harness))[0]["content"]
        assert "tidy-up" in model.requests[0].messages[0].text
        assert "quiet" not in model.requests[0].messages[0].text
        memory = await harness.resources.memory.read(MemoryScope(LOCAL_USER.user_id))
        assert [fact.content for fact in memory.facts] == ["Likes tea"]
        assert harness.core.custom_agents.load(LOCAL_USER.user_id, "helper").soul == "You are kind."
        state = await harness.threads.state("t1", LOCAL_USER)
        assert [message["content"] for message in json.loads(state.values)["messages"]] == ["Write a report", "Done."]
        assert (await harness.threads.get("t1", LOCAL_USER)).title == "A report"
        files = project / ".deer-flow" / "users" / "local" / "threads" / "t1" / "user-data"
        assert (files / "outputs" / "report.md").read_text() == "# Report"


async def test_data_can_be_taken_over_later_and_what_is_here_is_kept(project: Path, migrate: Command) -> None:
    old = project / "old"
    assert (await asyncio.to_thread(migrate)).exit_code == 0  # there is no data yet
    write_public_home(old)

    first = (await asyncio.to_thread(migrate, "--home", str(old))).output.splitlines()
    second = (await asyncio.to_thread(migrate, "--home", str(old))).output.splitlines()

    assert "thread t1: taken over, 2 messages" in first
    assert second[:-1] == [
        *(f"{name}: is here already" for name in ("skill quiet", "skill tidy-up", "agent helper", "memory")),
        "thread t1: is here already",
    ]


def test_takes_over_an_early_version_without_users(project: Path, migrate: Command) -> None:
    early = {
        "models": [
            {"name": "gpt", "use": "langchain_openai:ChatOpenAI", "model": "gpt-4", "api_key": "$OPENAI_API_KEY"}
        ],
        "tools": [
            {"name": "web_search", "group": "web", "use": "src.community.tavily.tools:web_search_tool"},
            {"name": "bash", "group": "bash", "use": "src.sandbox.tools:bash_tool"},
        ],
        "sandbox": {"use": "src.sandbox.local:LocalSandboxProvider"},
        "memory": {"enabled": True, "storage_path": "data/memory.json", "debounce_seconds": 30},
    }
    (project / "config.yaml").write_text(yaml.safe_dump(early))
    (project / ".deer-flow").mkdir()
    (project / "data").mkdir()
    (project / "data" / "memory.json").write_text(json.dumps({"facts": [{"content": "Likes tea"}]}))

    output = migrate().output

    assert "memory: taken over, 1 entries" in output
    made = yaml.safe_load((project / "config.yaml").read_text())
    assert [tool["use"] for tool in made["tools"]] == ["deerflow.community.tavily.tools:web_search_tool"]
    assert made["sandbox"] == {"use": "deerflow.sandbox.local:LocalSandboxProvider"}
    assert made["memory"] == {"enabled": True, "debounce_seconds": 30}


def test_takes_over_the_memory_that_the_backend_names(project: Path, migrate: Command) -> None:
    memory = {"backend_config": {"storage_path": "data/memory.json", "model_name": "gpt"}}
    models = [{"name": "gpt", "use": "langchain_openai:ChatOpenAI", "model": "gpt-4"}]
    (project / "config.yaml").write_text(yaml.safe_dump({"config_version": 34, "models": models, "memory": memory}))
    (project / ".deer-flow").mkdir()
    (project / "data").mkdir()
    (project / "data" / "memory.json").write_text(json.dumps({"facts": [{"content": "Likes tea"}]}))

    assert "memory: taken over, 1 entries" in migrate().output
    assert yaml.safe_load((project / "config.yaml").read_text())["memory"] == {"model_name": "gpt"}


def test_asks_for_a_user_if_there_are_several(project: Path, migrate: Command) -> None:
    for name in ("ann", "bob"):
        (project / ".deer-flow" / "users" / name).mkdir(parents=True)

    assert "has several users; choose one with --user: ann, bob" in migrate().output
    assert "there is no user 'eve'" in migrate("--user", "eve").output
    assert (project / "config.yaml").read_text() == PUBLIC
    assert migrate("--user", "ann").exit_code == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("log_level: info\n", "is not a configuration of the public DeerFlow; nothing was changed"),
        ("config_version: 34\nmodels: [\n", "config.yaml:3: is not valid YAML"),
        ("config_version: 34\ntitle: {}\ntitle: {}\n", "title"),
    ],
)
def test_rejects_other_files_and_changes_nothing(project: Path, migrate: Command, text: str, problem: str) -> None:
    (project / "config.yaml").write_text(text)

    result = migrate()

    assert result.exit_code == 1
    assert problem in result.output
    assert [path.name for path in project.iterdir()] == ["config.yaml"]


def test_a_thread_without_messages_in_its_latest_state_is_reported(project: Path, migrate: Command) -> None:
    file = project / ".deer-flow" / "data" / "deerflow.db"
    write_public_database(file)
    with sqlite3.connect(file) as connection:
        kind, state = JsonPlusSerializer().dumps_typed({"v": 4, "id": "3", "channel_values": {}})
        connection.execute("INSERT INTO checkpoints VALUES ('t1', '', '3', NULL, ?, ?, NULL)", (kind, state))
    connection.close()

    assert "thread t1: not taken over: the latest state holds no messages" in migrate().output


def test_threads_of_an_unreadable_database_are_reported(project: Path, migrate: Command) -> None:
    file = project / ".deer-flow" / "data" / "deerflow.db"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no database at all" * 100)

    result = migrate()

    assert result.exit_code == 0
    assert "deerflow.db: threads are not taken over: file is not a database" in result.output
