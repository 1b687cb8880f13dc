#!/bin/sh
# An engine that is a program of its own: started by its path.
read -r job
session=$(printf %s "$job" | sed 's/.*"sessionId":"\([^"]*\)".*/\1/')
echo "{\"type\":\"done\",\"sessionId\":\"$session\",\"turns\":0,\"usage\":{\"inputTokens\":0,\"outputTokens\":0,\"totalTokens\":0},\"text\":\"hello\"}"
