"""Accounts, logins and tokens, as a browser and programs use them."""

from pathlib import Path

from tests.gateway.account_server import ADMIN, AUTH, PASSWORD, USER, open_account_server, try_login


async def test_without_an_account_the_local_user_needs_no_login(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, requires_login=False) as server:
        http = server.program()
        assert (await http.get("/api/threads/none/state")).status_code == 404
        me = (await http.get(f"{AUTH}/me")).json()
        assert (me["id"], me["system_role"], me["login_required"]) == ("local", "admin", False)
        status = (await http.get(f"{AUTH}/setup-status")).json()
        assert status == {"needs_setup": False, "login_required": False, "registration_enabled": False}


async def test_the_first_account_owns_what_the_local_user_had(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, requires_login=False) as server:
        local = server.program()
        await local.post("/api/threads", json={"thread_id": "mine"})
        path = (await local.post(f"{AUTH}/setup-link")).json()["path"]
        http = server.browser()
        body = {"token": path.partition("#")[2], "email": ADMIN, "password": PASSWORD}
        made = await http.post(f"{AUTH}/initialize", json=body)
        assert made.json()["user"]["system_role"] == "admin"

        assert (await http.get("/api/threads/mine")).status_code == 200
        assert (await local.get("/api/threads/mine")).status_code == 401


async def test_people_join_by_invitation_and_do_not_see_each_other(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        assert (await ann.post("/api/threads", json={"thread_id": "anns"})).status_code == 200
        bob = await server.join(ann)
        assert (await bob.get("/api/threads/anns")).status_code == 404
        assert (await bob.post("/api/threads/search", json={})).json() == []
        assert (await bob.get(f"{AUTH}/users")).status_code == 403
        users = (await ann.get(f"{AUTH}/users")).json()
        assert [(each["email"], each["role"]) for each in users] == [(ADMIN, "admin"), (USER, "user")]


async def test_a_person_logs_in_and_out(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        http = await server.log_in("  Ann@Example.com ")
        assert (await http.get(f"{AUTH}/me")).json()["email"] == ADMIN
        wrong = await try_login(server.browser(), ADMIN, "wrong password")
        assert (wrong.status_code, wrong.json()["error"]) == (401, "LoginFailed")
        cookie = dict(http.cookies)
        assert (await http.post(f"{AUTH}/logout")).status_code == 204
        assert not http.cookies
        http.cookies.update(cookie)
        assert (await http.get(f"{AUTH}/me")).status_code == 401
