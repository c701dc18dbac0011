"""Rows have an owner, and whoever reads or changes them says whose. Exceptions stand here, each with a reason."""

import ast
from pathlib import Path

from deerflow.persistence.tables import metadata

SOURCE = Path(__file__).parents[2] / "src/deerflow"

WITHOUT_OWNER = {
    "installation": "the id of the database",
    "processes": "which servers are alive; nothing of anybody's",
    "search_backlog": "names of threads, for the server alone",
    "run_events": "reached through its run alone, which has an owner",
    "project_files": "reached through its project alone, which has an owner",
    "passages": "reached through its file and project alone",
    "passage_vectors": "reached through its passage alone",
    "accounts": "the owners themselves",
    "account_links": "invitations, which belong to the server, and links of one account",
    "login_attempts": "logins of people who are not known yet; found by a secret",
    "login_failures": "hashes of names and addresses, for the server alone",
    "audit_entries": "the log of the server, for administrators; `actor` and `subject` are the people in it",
    "audit_head": "the end of that log",
    "user_deletions": "people who are being deleted, for the server alone",
    "teams": "names of teams; reached through their members, or by an administrator",
    "team_members": "the people of a team; `user_id` is theirs",
    "channel_leases": "which server holds a chat app, and the state of its connection; nothing of anybody's",
    "channel_connections": "chat apps of the server, which administrators connect",
    "mcp_pins": "what MCP servers offer, accepted by an admin for everybody",
}
WITHOUT_ROWS = {
    "schema",
    "liveness",
    "maintenance",
    "sqlite",
    "postgres",
}
"""Modules that speak of tables, files and servers as a whole."""
OWNER_ARGUMENTS = {
    "owner": "the owner itself",
    "run": "a run that was found by its owner, or is being made by one",
    "record": "the same",
    "scope": "a memory: that of an owner, or of an owner and one of their agents",
    "extraction": "a pending extraction, with the memory it is for",
    "mark": "a deletion, with the owner of the thread it takes away",
    "which": "the condition of a caller in this package, who is looked at in turn",
    "joined": "runs that were found in the thread of a run under way",
    "new": "an opinion or a link, with the owner of what it is about",
    "thread": "a thread that was found by its owner",
    "origin": "whose model calls they were",
    "events": "of runs this process carries out",
    "file": "a file that the indexer has claimed",
    "resource": "a thing with its owner, who shares it",
    "user_id": "the person who asks, in queries of teams and grants: members and grantees",
}
BY_ID = {
    "claim_next_run": "the thread of a run that has just ended, or was left by a dead process",
    "list_active_runs": "the thread was found by its owner in the same transaction",
    "lock_thread": "locks and tells nothing; what follows in the transaction finds the thread by its owner",
    "touch_thread": "the thread was found or made by its owner in the same transaction",
    "list_steering_requests": "the thread of a run under way",
    "read_events": "a run that was found by its owner, or is under way",
    "read_last_seq": "a run that was found by its owner, or is under way",
    "read_earlier_changes": "a run that was found by its owner, or is under way",
    "read_changes": "a thread that was found by its owner",
    "iterate_latest_changes": "the thread of a run under way",
    "find_messages": "the thread of a run under way",
    "mentions_address": "the thread of a run under way",
    "read_timed_events": "a run that was found by its owner",
    "read_claimed_run": "a run that was found by its owner, or is under way",
    "read_log_end": "a thread that was found by its owner",
    "read_title": "the thread of a run under way",
    "read_page": "a thread that was found by its owner",
    "read_values": "a thread that was found by its owner",
    "find_abandoned_messages": "a thread that was found by its owner",
    "iterate_changes_backwards": "a thread that was found by its owner",
    "request_stops": "the thread was found by its owner in the same transaction",
    "read_backlog_changes": "a thread that was found by its owner, or is put into the index by the server",
    "index_backlog_thread": "a thread that is put into the index of its owner",
    "request_stop": "a run that was found by its owner",
    "is_unfinished": "a run whose reader found it by its owner",
    "read_run_controls": "runs this process carries out",
    "find_person": "somebody a chat platform has identified; the owner comes with the person",
    "redeem_code": "whoever has the code of a user may connect a chat account to them",
    "find_hook": "somebody who signs with the secret of the hook next",
    "find_started": "a delivery that was signed with the secret of its hook",
    "is_received": "an update a chat platform has sent, which nobody is told",
    "find_owner": "an administrator, who reads a thread with a reason and leaves an entry in the audit log",
    "read_members": "a team that was found by a member in the same transaction",
    "lock_team": "the same",
    "claim_user_deletion": "a deletion that a dead process has left",
    "begin_user_deletion": "an account that was deleted in the same transaction",
    "finish_user_deletion": "a deletion this process has carried out",
    "erase_details": "a deletion this process is carrying out",
    "find_account_by_email": "an administrator, or somebody who says the password next",
    "find_password": "somebody who says the password next",
    "read_account": "a condition of a caller in this module",
    "redeem_reset": "whoever has the secret of a link may set the password of its account",
    "take_link": "whoever has the secret of a link may use it",
    "find_link": "whoever has the secret of a link may use it",
    "find_credentials": "whoever has the secret of a session or token is its owner",
    "take_attempt": "whoever has the secret of a login that has begun may finish it",
    "find_identity": "a person whom a provider has identified",
    "insert_identity": "the owner comes with the identity",
    "create_account_of": "a new account with the identity of its owner",
    "record_identity_use": "an identity that a provider has just confirmed",
    "find_passkey": "whoever has the key logs in with it",
    "insert_passkey": "the owner comes with the passkey",
    "record_passkey_use": "a passkey whose signature was just checked",
    "record_use": "a session or token that was found by its secret",
    "find_share": "whoever has the secret of a link may read its thread; the owner comes with the link",
    "finish_deletions": "deletions this process has carried out",
    "postpone_purge": "deletions this process has carried out",
    "purge_passages": "a project that its owner has deleted",
    "finish_purge": "a project that its owner has deleted",
    "renew_claims": "files that the indexer has claimed",
    "release_files": "files that the indexer has claimed",
    "compare_vectors": "a project that was found by its owner; what is found is read by the owner again",
    "search_terms": "a project that was found by its owner; what is found is read by the owner again",
    "search_vectors": "a project that was found by its owner; what is found is read by the owner again",
}
FOR_ALL = {
    "record_events": "writes into the log of the server",
    "write_recorded": "the same; the change in it is checked by itself",
    "lock_head": "the end of the log of the server",
    "append_entry": "writes into the log of the server",
    "read_head": "the end of the log of the server",
    "read_end": "the same",
    "read_raw_entries": "a server or an administrator verifies the whole log",
    "list_entries": "an administrator looks at the log; of people, the service asks for their own",
    "list_entries_after": "an administrator exports the log",
    "list_deleted_people": "a server or an administrator verifies the whole log",
    "read_emails": "names of the people in entries that were found",
    "list_user_deletions": "a server finishes everybody's deletions",
    "list_leases": "the servers and states of chat apps, which everybody sees",
    "find_lease": "a server looks for the one that holds a chat app",
    "create_lease": "the same",
    "take_lease": "a server takes a chat app over",
    "renew_lease": "a server holds a chat app",
    "free_lease": "the same",
    "request_restart": "an administrator lets a server connect again",
    "list_saved_channels": "chat apps of the server, which everybody sees without their settings",
    "has_saved_channels": "the same",
    "save_channel": "an administrator connects a chat app",
    "delete_saved_channel": "an administrator disconnects a chat app",
    "has_accounts": "whether there is any account",
    "list_accounts": "an administrator looks at all accounts",
    "add_first_account": "there is no account yet",
    "insert_link": "an administrator makes links for everybody",
    "list_invitations": "an administrator looks at all invitations",
    "delete_invitation": "an administrator withdraws it",
    "lock_admins": "all administrators, of whom one must stay",
    "insert_attempt": "logins of people who are not known yet",
    "reserve_failures": "failed logins of everybody",
    "release_failures": "the same",
    "find_purge": "a server purges everybody's deleted projects",
    "claim_files": "a server indexes everybody's files",
    "list_unembedded": "a server indexes everybody's files",
    "save_vectors": "a server indexes everybody's files",
    "list_unfinished_runs": "a server goes on with everybody's runs",
    "list_unfinished_deletions": "a server finishes everybody's deletions",
    "list_expired_threads": "a server deletes everybody's old threads",
    "find_next_expiry": "a server deletes everybody's old threads",
    "count_unfinished_runs": "figures of a whole server",
    "check_writable": "tries the database out",
    "do_nothing": "does nothing",
    "apply_all": "applies changes that are checked one by one",
    "list_open": "a server sends everybody's messages",
    "forget_old_updates": "a server forgets everybody's old updates",
    "find_next_due": "a server learns from everybody's threads",
    "find_schedule": "the same",
    "next_due": "the same",
    "limit_waits": "the same",
    "claim_due": "a server learns from everybody's threads",
    "find_next_in_backlog": "a server indexes everybody's threads",
    "merge_log": "puts the file as a whole in order",
    "merge_index": "puts the index as a whole in order",
    "merge_table_index": "the same",
    "repair_teams": "a deletion has left teams without members or owners",
    "end_acceptances": "whatever people can no longer use, after grants have ended",
    "savepoint": "a part of a transaction, whatever is in it",
    "delete_server_tokens": "an admin has removed a server, and with it everybody's logins there",
    "list_login_servers": "names of servers; a server wants to know where people log in",
    "read_pins": "what a server of everybody's offers",
    "pin_server": "the same",
    "upsert_offers": "the same",
    "clear_offers": "the same",
    "accept_offers": "an admin accepts it for everybody",
    "delete_pins": "the same",
    "insert_pins": "the same",
    "insert_or_ignore": "the same",
    "count_pins": "the same",
}


def test_every_row_has_an_owner() -> None:
    lacking = [
        table.name
        for table in metadata.tables.values()
        if table.name not in WITHOUT_OWNER and ("owner" not in table.c or table.c.owner.nullable)
    ]
    assert lacking == [], "give the table a column `owner`, nullable=False, or say above why it needs none"
    assert WITHOUT_OWNER.keys() <= metadata.tables.keys()


def test_queries_are_restricted_to_an_owner() -> None:
    functions = dict(list_queries())
    silent = {
        name
        for name, arguments in functions.items()
        if not OWNER_ARGUMENTS.keys() & set(arguments) and name not in BY_ID and name not in FOR_ALL
    }
    assert silent == set(), "take `owner`, or say above how it is known that the rows are the caller's"
    assert (BY_ID.keys() | FOR_ALL.keys()) - functions.keys() == set(), "these are gone: leave them out above"


def list_queries() -> list[tuple[str, list[str]]]:
    """Return the functions that take a connection, with the names of their arguments."""
    return [
        (node.name, [each.arg for each in (*node.args.args, *node.args.kwonlyargs)])
        for file in sorted(
            {*SOURCE.rglob("queries.py"), *SOURCE.rglob("queries/*.py"), *(SOURCE / "persistence").rglob("*.py")}
        )
        if file.stem not in WITHOUT_ROWS and "migrations" not in file.parts
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.args.args and node.args.args[0].arg == "connection"
    ]
