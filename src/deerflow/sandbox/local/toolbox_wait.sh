#!/bin/sh
# Waits for the Python toolbox of the sandbox, then runs the program of this name. A failed build leaves the one
# of this machine.
toolbox=UNFINISHED name=${0##*/}
[ -e "$toolbox/environment" ] || echo "[waiting: the Python packages of the sandbox are being installed]" >&2
while [ ! -e "$toolbox/environment" ] && [ ! -e "$toolbox/failure" ]; do sleep 0.2; done
[ -e "$toolbox/environment" ] && exec "$toolbox/environment/bin/$name" "$@"
PATH=$(printf %s "$PATH" | sed "s|$toolbox/bin:||")
exec "$name" "$@"
