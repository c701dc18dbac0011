"""Rows have an owner, and whoever reads or changes them says whose. Exceptions stand here, each with a reason."""

import ast
from pathlib import Path

from deerflow.persistence.tables import metadata

PERSISTENCE = Path(__file__).parents[2] / "src/deerflow/persistence"

WITHOUT_OWNER = {
    "processes": "which servers are alive; nothing of anybody's",
    "search_backlog": "names of threads, for the server alone",
    "run_events": "reached through its run alone, which has an owner",
    "mcp_pins": "what MCP servers offer, accepted by an admin for everybody",
}
NOT_ABOUT_ROWS = {
    "schema",
    "migrate",
    "scrubber",
    "scrubbing",
    "processes",
    "sqlite",
    "postgres",
    "postgres_checkpoints",
}
"""Modules that speak of tables, files and servers as a whole."""
SAYS_WHOSE = {
    "owner": "the owner itself",
    "run": "a run that was found by its owner, or is being made by one",
    "record": "the same",
    "scope": "a memory: that of an owner, or of an owner and one of their agents",
    "lesson": "what is to be learned, with the memory it is for",
    "mark": "a deletion, with the owner of the thread it takes away",
    "which": "the condition of a caller in this package, who is looked at in turn",
    "joined": "runs that were found in the thread of a run under way",
    "given": "an opinion or a link, with the owner of what it is about",
    "thread": "a thread that was found by its owner",
    "origin": "whose model calls they were",
    "events": "of runs this process carries out",
}
BY_ID = {
    "claim_next": "the thread of a run that has just ended, or was left by a dead process",
    "active_runs": "the thread was found by its owner in the same transaction",
    "hold_thread": "locks and tells nothing; what follows in the transaction finds the thread by its owner",
    "touch_thread": "the thread was found or made by its owner in the same transaction",
    "waiting_to_steer": "the thread of a run under way",
    "read_events": "a run that was found by its owner, or is under way",
    "last_seq": "a run that was found by its owner, or is under way",
    "earlier_changes": "a run that was found by its owner, or is under way",
    "all_changes": "a thread that was found by its owner",
    "latest_changes": "the thread of a run under way",
    "find_messages": "the thread of a run under way",
    "read_timed_events": "a run that was found by its owner",
    "read_claimed": "a run that was found by its owner, or is under way",
    "page_of": "a thread that was found by its owner",
    "values_told": "a thread that was found by its owner",
    "branches_since": "a thread that was found by its owner",
    "told_backwards": "a thread that was found by its owner",
    "order_stops": "the thread was found by its owner in the same transaction",
    "old_changes": "a thread that was found by its owner, or is put into the index by the server",
    "work_off": "a thread that is put into the index of its owner",
    "order_stop": "a run that was found by its owner",
    "is_unfinished": "a run whose reader found it by its owner",
    "read_orders": "runs this process carries out",
    "find_shared": "whoever has the secret of a link may read its thread; the owner comes with the link",
    "end_deletions": "deletions this process has carried out",
}
FOR_ALL = {
    "unfinished_runs": "a server goes on with everybody's runs",
    "unfinished_deletions": "a server finishes everybody's deletions",
    "expired_threads": "a server deletes everybody's old threads",
    "next_expiry": "a server deletes everybody's old threads",
    "count_unfinished": "figures of a whole server",
    "read_back": "tries the database out",
    "nothing_else": "does nothing",
    "next_lesson_at": "a server learns from everybody's threads",
    "claim_lesson": "a server learns from everybody's threads",
    "next_in_backlog": "a server indexes everybody's threads",
    "merge_step": "puts the index as a whole in order",
    "merge_table": "the same",
    "sparing": "a part of a transaction, whatever is in it",
    "delete_tokens_at": "an admin has removed a server, and with it everybody's logins there",
    "places_of_logins": "names of servers; a server wants to know where people log in",
    "read_pins": "what a server of everybody's offers",
    "pin_server": "the same",
    "note_offers": "the same",
    "drop_offers": "the same",
    "accept_offers": "an admin accepts it for everybody",
    "delete_pins": "the same",
    "add": "the same",
    "count": "the same",
}


def test_every_row_has_an_owner() -> None:
    lacking = [
        table.name
        for table in metadata.tables.values()
        if table.name not in WITHOUT_OWNER and ("owner" not in table.c or table.c.owner.nullable)
    ]
    assert lacking == [], "give the table a column `owner`, nullable=False, or say above why it needs none"
    assert WITHOUT_OWNER.keys() <= metadata.tables.keys()


def test_whoever_reads_or_changes_rows_says_whose_they_are() -> None:
    functions = dict(queries())
    silent = {
        name
        for name, arguments in functions.items()
        if not SAYS_WHOSE.keys() & set(arguments) and name not in BY_ID and name not in FOR_ALL
    }
    assert silent == set(), "take `owner`, or say above how it is known that the rows are the caller's"
    assert (BY_ID.keys() | FOR_ALL.keys()) - functions.keys() == set(), "these are gone: leave them out above"


def queries() -> list[tuple[str, list[str]]]:
    """The functions that take a connection, with the names of their arguments."""
    return [
        (node.name, [each.arg for each in (*node.args.args, *node.args.kwonlyargs)])
        for file in sorted(PERSISTENCE.glob("*.py"))
        if file.stem not in NOT_ABOUT_ROWS
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.args.args and node.args.args[0].arg == "connection"
    ]
