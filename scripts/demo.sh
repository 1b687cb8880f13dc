#!/bin/sh
# Installs what the demo needs (npm packages, bubblewrap, the built worker), says so on stderr, and runs it.
# stdout carries the job's event stream and nothing else.
set -eu
cd "$(dirname "$(readlink -f "$0")")/.."
exec 3>&1 1>&2

# npm puts node_modules/.bin first; what replaces node_modules must not run from it.
host_path=$(printf %s "$PATH" | tr : '\n' | grep -v 'node_modules/\.bin$' | paste -sd : -)
lock=$(sha256sum package-lock.json | cut -d ' ' -f 1)
installed=node_modules/.lock-sha256
if [ "$(cat $installed 2>/dev/null || true)" != "$lock" ]; then
  # An `npm ci` by hand leaves no mark of ours, but one of npm's, newer than the lockfile.
  if [ -e $installed ] || [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
    echo "demo: installing the npm packages (npm ci)"
    PATH=$host_path npm ci --loglevel=error --no-audit --no-fund
  fi
  [ ! -w node_modules ] || printf %s "$lock" >$installed
fi

if ! command -v bwrap >/dev/null; then
  if [ "$(id -u)" != 0 ]; then
    echo "demo: bubblewrap is missing; as root: apt-get install bubblewrap"
    exit 1
  fi
  echo "demo: installing the Debian package bubblewrap (apt-get install bubblewrap)"
  export DEBIAN_FRONTEND=noninteractive
  install_bubblewrap() { apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null; }
  install_bubblewrap 2>/dev/null || { apt-get update -qq && install_bubblewrap; }
fi

worker=worker/dist/djinn.cjs
if [ ! -e $worker ] || [ -n "$(find worker scripts/build-worker.mjs -newer $worker \( -name '*.ts' -o -name '*.mjs' -o -name package.json \) -print -quit)" ]; then
  echo "demo: building $worker"
  node_modules/.bin/node scripts/build-worker.mjs
fi

exec bin/djinnd demo "$@" >&3
