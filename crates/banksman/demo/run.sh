#!/bin/sh
# The tests of the demo's library: `sh tests/run.sh NAME` tests one function.
set -eu

check() { [ "$1" = "$2" ] || { echo "expected '$2', got '$1'"; exit 1; }; }
[ ! -f "lib/$1.sh" ] || . "lib/$1.sh"
case $1 in
sum) check "$(sum 1 2 39)" 42 ;;
max) check "$(max 3 17 5)" 17 ;;
reverse) check "$(reverse crane)" enarc ;;
words) check "$(words 'mind the moving load')" 4 ;;
trim) check "$(trim '  hook  ')" hook ;;
upper) check "$(upper stop)" STOP ;;
licence) grep -qx -e MIT -e Apache-2.0 LICENCE || { echo "no licence was chosen"; exit 1; } ;;
manual) for name in sum max reverse words trim upper; do grep -qx -- "- $name" MANUAL.md || { echo "$name is missing"; exit 1; }; done ;;
esac
echo "ok: $1"
