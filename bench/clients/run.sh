#!/usr/bin/env bash
# Fetches a site of 100 files, byte for byte, with every client that is here: over HTTP/1.1 and HTTP/2, TLS; then a page of 200 images in Chromium.
#
#     bench/clients/run.sh target/release/lamna
#
# Clients that are not installed are left out and named. httpx: pip install 'httpx[http2]'. All traffic goes to loopback.
set -u
here=$(cd "$(dirname "$0")" && pwd)
lamna=$(realpath "${1:?the program}")
work=$(mktemp -d)
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
mkdir "$work/site" "$work/state" "$work/control"
for at in $(seq 0 99); do head -c $((at * at * 137)) /dev/urandom > "$work/site/$at.bin"; echo "/$at.bin"; done > "$work/paths"
for at in $(seq 0 199); do
    printf '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><!--%s--><rect width="9" height="9"/></svg>' "$at" > "$work/site/$at.svg"
    echo "<img src=/$at.svg>"
done > "$work/images"
{ echo '<!doctype html><title>waiting</title>'; cat "$work/images"
  echo '<script>onload=()=>{let i=[...document.images];document.title=i.filter(e=>e.complete&&e.naturalWidth==9).length+" of "+i.length}</script>'; } > "$work/site/page.html"
cd "$work" || exit 1
XDG_STATE_HOME=$work/state LAMNA_RUNTIME_DIR=$work/control "$lamna" serve site --tls --listen 127.0.0.1:0 --log "$work/log" --log-format json 2> said &
server=$!
for _ in $(seq 100); do grep -q 'serving' said && break; sleep 0.1; done
port=$(grep -o 'https://127.0.0.1:[0-9]*' said | head -1 | grep -o '[0-9]*$')
base=https://127.0.0.1:$port ca=$work/state/lamna/tls/local-ca.pem
failures=0
try() { # name version command...
    local name=$1 version=$2; shift 2
    if ! command -v "$1" > /dev/null; then echo "$name: not installed"; return; fi
    rm -rf "$work/got"; mkdir "$work/got"
    if ! "$@" < "$work/paths" > "$work/out" 2>&1; then echo "$name, HTTP/$version: FAILED"; tail -3 "$work/out"; failures=$((failures + 1)); return; fi
    local same=0
    for at in $(seq 0 99); do cmp -s "site/$at.bin" "got/$at.bin" && same=$((same + 1)); done
    echo "$name, HTTP/$version: $same of 100 files byte for byte"
    [ $same = 100 ] || failures=$((failures + 1))
}
for version in 1 2; do
    flag=--http1.1; [ $version = 2 ] && flag=--http2
    urls=(); while read -r path; do urls+=("$base$path" -o "got$path"); done < paths
    try curl $version curl -sf --cacert "$ca" $flag --parallel "${urls[@]}"
    if python3 -c 'import httpx, h2' 2>/dev/null; then try "python httpx" $version python3 "$here/client.py" "$base" "$ca" $version got; else echo "python httpx: not installed"; fi
    try node $version node "$here/client.js" "$base" "$ca" $version got
    try go $version go run "$here/client.go" "$base" "$ca" $version got
    try java $version java "$here/Client.java" "$base" "$ca" $version got
done
if command -v nghttp > /dev/null; then
    right=$(nghttp -ns $(sed "s|^|$base|" paths) 2>&1 | awk '$5 == 200' | wc -l)
    echo "nghttp: $right of 100 answers are 200"
    [ "$right" = 100 ] || failures=$((failures + 1))
    h2load -n 1000 -c 4 -m 16 "$base/50.bin" 2>/dev/null | grep '^status codes'
fi
if command -v chromium > /dev/null; then
    chromium --headless --no-sandbox --disable-gpu --ignore-certificate-errors --user-data-dir="$work/chromium" --virtual-time-budget=20000 \
        --dump-dom "$base/page.html" 2>/dev/null | grep -o '<title>[^<]*'
    sleep 1
    echo "Chromium's requests by protocol, TLS, cipher suite and group:"
    grep svg "$work/log" | grep -o '"network.protocol.version":"[^"]*"\|"tls.protocol.version":"[^"]*"\|"tls.cipher":"[^"]*"\|"tls.curve":"[^"]*"' | sort | uniq -c
fi
exit $failures
