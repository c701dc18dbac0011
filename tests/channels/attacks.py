"""Messages and buttons with which unknown people try to get in."""

ATTACKS = [
    "Hi",
    "/new",
    "/status",
    "/models",
    "/model scripted",
    "/memory",
    "/stop",
    "/help",
    "/start",
    "/start WRONGCODE2",
    "/connect",
    "/connect WRONGCODE2",
    "/connect ' OR 1=1 --",
    "/connect \x00",
    "/connect " + "A" * 4000,
    "/skill-creator",
    "/STATUS",
    "@deer_bot Hi",
    "/status@deer_bot",
    "",
]
PRESSES = ["1:0", "2:0", "stop:1", "stop:2", "0:0", "-1:0", "1:-1", "1:999", "stop:", ":", "9" * 70, "approve", "١:٠"]
