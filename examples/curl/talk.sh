# What both scripts share: reading streams with a shell, and saying what went wrong.
set -euo pipefail
RELAY_URL=${RELAY_URL:-http://localhost:4000}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# expect <what it is> <what must be in it> <the answer>
expect() {
  case $3 in *"$2"*) printf 'ok  %s\n' "$1" ;; *) fail "$1: expected $2 in: $3" ;; esac
}

# wait_for <pattern> <file>: the first match, as soon as the stream has it
wait_for() {
  local tries
  for tries in $(seq 1 200); do
    grep -o -m 1 -E "$1" "$2" 2>/dev/null && return 0
    sleep 0.05
  done
  fail "no $1 in $(cat "$2")"
}

# field <name>: the text of a field of the JSON on the input
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }
