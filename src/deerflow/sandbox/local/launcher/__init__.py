"""Launcher of isolated commands: bubblewrap, seccomp, cgroups and network namespaces."""
