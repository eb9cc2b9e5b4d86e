# Shared functions: reading streams in a shell, and reporting failures.
set -euo pipefail
RELAY_URL=${RELAY_URL:-http://localhost:4000}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# expect <name> <expected text> <response>
expect() {
  case $3 in *"$2"*) printf 'ok  %s\n' "$1" ;; *) fail "$1: expected $2 in: $3" ;; esac
}

# wait_for <pattern> <file>: prints the first match as soon as the stream contains it
wait_for() {
  local tries
  for tries in $(seq 1 200); do
    grep -o -m 1 -E "$1" "$2" 2>/dev/null && return 0
    sleep 0.05
  done
  fail "no $1 in $(cat "$2")"
}

# field <name>: prints the value of a string field of the JSON on standard input
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }
