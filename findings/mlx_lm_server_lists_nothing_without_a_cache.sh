#!/usr/bin/env bash
# Bet: GET /v1/models of mlx_lm.server is JSON whenever its status is 200: a list that may be empty.
# Happens: on a machine that has no Hugging Face cache folder yet, it answers 200 with an empty body, since it sends the
#   status first and then the scan for the folder raises. That is so too when --model names a folder, whose model is
#   loaded and would be listed. With the cache folder there, even empty, the list is JSON.
# Package: mlx-lm 0.32.2, mlx 0.32.4. Date: 2026-11-28.
# Output seen:
#   without the cache folder: status 200, body of 0 bytes
#   with an empty one: status 200, {"object": "list", "data": []}
# Follows: a client takes a body that is no JSON for an empty list, and asks for "default_model", by which the server means
#   that of --model.
set -euo pipefail
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -q "mlx[cpu]==0.32.4" mlx-lm==0.32.2 2>/dev/null
cat > list.py <<'PY'
import sys, time, urllib.error, urllib.request

for _ in range(600):  # until the server is there
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/v1/models") as answer:
            status, body = answer.status, answer.read().decode()
        break
    except urllib.error.URLError:
        time.sleep(0.2)
print(f"{sys.argv[2]}: status {status}, {body or 'body of 0 bytes'}")
PY
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export HOME="$work/home"
unset HF_HOME HF_HUB_CACHE XDG_CACHE_HOME
mkdir home
env/bin/python -m mlx_lm.server --port "$port" >log 2>&1 &
env/bin/python list.py "$port" "without the cache folder" | tee seen
mkdir -p home/.cache/huggingface/hub
env/bin/python list.py "$port" "with an empty one" | tee -a seen
diff seen - <<'SEEN'
without the cache folder: status 200, body of 0 bytes
with an empty one: status 200, {"object": "list", "data": []}
SEEN
