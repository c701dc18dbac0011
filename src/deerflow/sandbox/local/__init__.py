"""Sandboxes on this machine, isolated by bubblewrap.

Layers, each of which adds one property::

    tools.bash             the tool that the model calls
    lease.RunLease         acquires the sandbox on first use, after a snapshot of the files
    provider               one LocalSandbox per thread
    sandbox.LocalSandbox   files from outside; output limit, disk limit (usage.DiskMonitor)
    runners
      StoppableRunner      kills commands when the sandbox is closed
      IsolatedRunner       network namespace (launcher.network), memory limit (cgroups.MemoryMonitor)
      HostRunner           no isolation, only with `allow_host_bash`
    launcher.client        LauncherClient, the server's side of a socket
    launcher.server        Launcher, a small process that forks
    bubblewrap             namespaces, bind mounts, seccomp filter

One command on its way::

    "ls -l"                                             str, from the model
      -> CommandSpec(argv, cwd, env, confinement)       LocalSandbox.execute_command
      -> IsolatedCommand(argv, options, binds, ...)     IsolatedRunner.run, with a BubblewrapProfile
      -> {"action": "start", "argv": [...], ...}        LauncherClient.run, a packet with the output pipe
      -> bwrap --args FD -- bash -c ... ls -l           Launcher.exec_bubblewrap, in a forked child

    output:  pipe -> OutputReader -> BoundedText, and ToolProgress while the command runs
    exit:    Launcher.handle_exit -> LauncherReply -> ExitStatus -> CommandResult

Background commands (background) and services (services) take the same way.
"""

from deerflow.sandbox.local.provider import LocalSandboxProvider

__all__ = ["LocalSandboxProvider"]
