#!/usr/bin/env bash
# The control plane with curl: a credential, a run with a tool and memory, a run with a function tool,
# and their records. Needs RELAY_API_KEY and a provider's key:
#   OPENAI_API_KEY=sk-… [OPENAI_BASE_URL=https://…] RELAY_API_KEY=relay_live_… examples/curl/runs.sh
. "$(dirname "$0")/talk.sh"
: "${RELAY_API_KEY:?set it to the key that the first start printed}"
: "${OPENAI_API_KEY:?set it to a provider’s key}"
base_url=${OPENAI_BASE_URL:+,\"baseUrl\":\"$OPENAI_BASE_URL\"}

expect 'the server is healthy' '"status":"ok"' "$(curl -s $RELAY_URL/health)"

# upload / rotate
answer=$(curl -s -X PUT $RELAY_URL/v1/credentials/openai \
  -H "authorization: Bearer $RELAY_API_KEY" \
  -H "content-type: application/json" \
  -d '{"apiKey":"'$OPENAI_API_KEY'","label":"prod"'$base_url'}')
expect 'a credential' '"provider":"openai","label":"prod"' "$answer"

# list (apiKey field is never returned)
answer=$(curl -s -H "authorization: Bearer $RELAY_API_KEY" $RELAY_URL/v1/credentials)
expect 'the list of credentials' '"provider":"openai"' "$answer"
case $answer in *"$OPENAI_API_KEY"*) fail 'the list shows the key' ;; esac

# a run with a built-in tool and a memory
curl -sN -D "$work/headers" -X POST $RELAY_URL/v1/runs \
  -H "authorization: Bearer $RELAY_API_KEY" \
  -H "content-type: application/json" \
  -d '{
    "model": "gpt-4o-mini",
    "system": "You are a helpful assistant.",
    "input": "What is 23 * 47?",
    "tools": [{ "name": "calculator", "kind": "builtin" }],
    "memory": { "namespace": "demo-user" }
  }' > "$work/stream"
expect 'a token' '{"type":"token","text":"' "$(cat "$work/stream")"
expect 'a call of the tool' '"name":"calculator","input":{"a":23,"b":47,"op":"*"}' "$(cat "$work/stream")"
expect 'its result' '"output":1081' "$(cat "$work/stream")"
expect 'the end' '"type":"done","status":"completed"' "$(cat "$work/stream")"
RUN_ID=$(grep -i '^x-run-id:' "$work/headers" | tr -d '\r' | cut -d ' ' -f 2)

# list runs (paginated by ?limit, filtered by ?status)
answer=$(curl -s -H "authorization: Bearer $RELAY_API_KEY" \
  "$RELAY_URL/v1/runs?status=completed&limit=20")
expect 'the list of runs' "\"id\":\"$RUN_ID\"" "$answer"

# run metadata
answer=$(curl -s -H "authorization: Bearer $RELAY_API_KEY" \
  "$RELAY_URL/v1/runs/$RUN_ID")
expect 'the run' '"status":"completed","model":"gpt-4o-mini"' "$answer"

# full event log
answer=$(curl -s -H "authorization: Bearer $RELAY_API_KEY" \
  "$RELAY_URL/v1/runs/$RUN_ID/events")
expect 'its events' '"type":"run.ended"' "$answer"

# memories
answer=$(curl -s -H "authorization: Bearer $RELAY_API_KEY" \
  "$RELAY_URL/v1/memories?namespace=demo-user&limit=50")
expect 'the memories' 'What is 23 * 47?' "$answer"
MEMORY_ID=$(printf '%s' "$answer" | field id)
answer=$(curl -s -o /dev/null -w '%{http_code}' -X DELETE -H "authorization: Bearer $RELAY_API_KEY" \
  "$RELAY_URL/v1/memories/$MEMORY_ID")
expect 'one is deleted' 204 "$answer"
answer=$(curl -s -o /dev/null -w '%{http_code}' -X DELETE -H "authorization: Bearer $RELAY_API_KEY" \
  "$RELAY_URL/v1/memories?namespace=demo-user")
expect 'the namespace is cleared' 204 "$answer"

# a run with a function tool
curl -sN -D "$work/headers" -X POST $RELAY_URL/v1/runs \
  -H "authorization: Bearer $RELAY_API_KEY" \
  -H "content-type: application/json" \
  -d '{
    "model": "gpt-4o-mini",
    "input": "Who is u_001?",
    "tools": [{
      "name": "get_user", "kind": "function", "description": "Finds a user by id",
      "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    }]
  }' > "$work/stream" &
TOOL_USE_ID=$(wait_for '"type":"tool_call","id":"[^"]*"' "$work/stream" | field id)
RUN_ID=$(grep -i '^x-run-id:' "$work/headers" | tr -d '\r' | cut -d ' ' -f 2)
answer=$(curl -s -X POST $RELAY_URL/v1/runs/$RUN_ID/tool-results/$TOOL_USE_ID \
  -H "authorization: Bearer $RELAY_API_KEY" \
  -H "content-type: application/json" \
  -d '{ "output": { "ok": true, "user": { "id": "u_001" } } }')
expect 'its result is accepted' '{"ok":true}' "$answer"
wait_for '"type":"done","status":"completed"' "$work/stream" > /dev/null
expect 'the stream shows it' '"output":{"ok":true,"user":{"id":"u_001"}}' "$(cat "$work/stream")"

# revoke
answer=$(curl -s -o /dev/null -w '%{http_code}' -X DELETE -H "authorization: Bearer $RELAY_API_KEY" \
  $RELAY_URL/v1/credentials/openai)
expect 'the credential is deleted' 204 "$answer"
answer=$(curl -s -X POST $RELAY_URL/v1/runs -H "authorization: Bearer $RELAY_API_KEY" \
  -H "content-type: application/json" -d '{"model": "gpt-4o-mini", "input": "hi"}')
expect 'a run without a credential is rejected' '"code":"credential_missing"' "$answer"
answer=$(curl -s $RELAY_URL/v1/runs)
expect 'a request without a key is rejected' '"code":"unauthorized"' "$answer"
