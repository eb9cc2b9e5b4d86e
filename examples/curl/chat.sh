#!/usr/bin/env bash
# Responds to the relays of a chat: approve once, approve always, deny. On the server's machine no API
# key is needed, and the model `demo` needs no provider.
. "$(dirname "$0")/talk.sh"

# Starts a chat that needs approval to send a note, and reads its session and relay ids.
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
expect 'the tool ran' '"type":"tool_result"' "$(cat "$work/stream")"

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
expect 'an approval with always' '{"success":true}' "$answer"
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
expect 'the model received the reason' '"status":"denied","reason":"This operation could delete important files"' \
  "$(cat "$work/stream")"

answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID \
  -H "Content-Type: application/json" -d '{"sessionId": "'$SESSION_ID'", "response": {"approved": true}}')
expect 'a chat that has ended' '"error":"Session not found"' "$answer"
answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID -H "Content-Type: application/json" -d '{}')
expect 'an empty body' '"error":"sessionId and response are required"' "$answer"
answer=$(curl -s -X POST $RELAY_URL/chat/relay/$RELAY_ID -H "Content-Type: application/json" -d '{')
expect 'invalid JSON' '"error":"Invalid JSON body"' "$answer"
