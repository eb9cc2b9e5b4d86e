#!/usr/bin/env bash
# Answers what an agent asks during a chat: once, for always, and with a no. On this machine no key
# is needed; the model `demo` needs none either.
. "$(dirname "$0")/talk.sh"

# Starts a chat that asks before it sends a note, and reads who asks.
chat() {
  curl -sN -X POST "$RELAY_URL/chat" -H "Content-Type: application/json" \
    -d "{\"model\": \"demo\", \"messages\": [{\"role\": \"user\", \"content\": \"notify $1\"}]}" \
    > "$work/stream" &
  SESSION_ID=$(wait_for '"sessionId":"[^"]*"' "$work/stream" | field sessionId)
  RELAY_ID=$(wait_for '"type":"relay".*' "$work/stream" | grep -o '"id":"[^"]*"' | head -n 1 | field id)
}

chat 'approve me'
answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID \
  -H "Content-Type: application/json" \
  -d '{
    "sessionId": "'$SESSION_ID'",
    "response": {
      "approved": true
    }
  }')
expect 'an approval' '{"success":true}' "$answer"
wait_for 'event: harness_end' "$work/stream" > /dev/null
expect 'the tool has run' '"type":"tool_result"' "$(cat "$work/stream")"

chat 'approve me always'
answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID \
  -H "Content-Type: application/json" \
  -d '{
    "sessionId": "'$SESSION_ID'",
    "response": {
      "approved": true,
      "always": true
    }
  }')
expect 'an approval for always' '{"success":true}' "$answer"
wait_for 'event: harness_end' "$work/stream" > /dev/null

chat 'deny me'
answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID \
  -H "Content-Type: application/json" \
  -d '{
    "sessionId": "'$SESSION_ID'",
    "response": {
      "approved": false,
      "reason": "This operation could delete important files"
    }
  }')
expect 'a denial' '{"success":true}' "$answer"
wait_for 'event: harness_end' "$work/stream" > /dev/null
expect 'the model was told' '"status":"denied","reason":"This operation could delete important files"' \
  "$(cat "$work/stream")"

answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID \
  -H "Content-Type: application/json" -d '{"sessionId": "'$SESSION_ID'", "response": {"approved": true}}')
expect 'a chat that is over' '"error":"Session not found"' "$answer"
answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID -H "Content-Type: application/json" -d '{}')
expect 'nothing said' '"error":"sessionId and response are required"' "$answer"
answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID -H "Content-Type: application/json" -d '{')
expect 'no JSON' '"error":"Invalid JSON body"' "$answer"
