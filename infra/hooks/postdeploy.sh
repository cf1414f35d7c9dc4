#!/bin/sh
# After `azd deploy`: waits until the API responds, prints the next step, and applies the quotas of infra/quotas.yaml. An
# isolated API is unreachable from outside its network.
set -eu
for _ in $(seq 60); do
  if curl -sf -o /dev/null --max-time 10 "$LUCIUS_API_URL/v1/health/live"; then
    echo "LUCIUS responds at $LUCIUS_API_URL"
    echo "A first job: docs/guides/deploy.md, \"The first job\""
    exec sh infra/hooks/apply_quotas.sh
  fi
  sleep 5
done
echo "postdeploy: $LUCIUS_API_URL does not respond yet; an isolated API is reachable from its network only; otherwise see docs/guides/deploy.md, \"Troubleshooting\"" >&2
