#!/usr/bin/env python3
"""The public suite of tests for HTTP caches (cache-tests.fyi) against the kept answers of Lamna (docs/caching-answers.md).

    git clone https://github.com/http-tests/cache-tests.git && (cd cache-tests && npm install --omit=dev)
    cargo build && bench/cache_suite.py cache-tests [--engines amped,mp] [--binary target/debug/lamna] [--cache true]

The suite's own origin and client (Node) run around one server for each engine, one after the other; each takes a minute, most of it waiting. Told are, for each
kind of test, how many passed and failed, by the suite's rules: a test whose preparation or whose prerequisite does not come about has no result ("not
applied"), and tests for browsers only are not run. Every required test that failed is named; then the status is 1. `--named` names those of the other kinds.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

from servers import ROOT, Server, write

ORIGIN_PORT, PORT = 18800, 18801
EXPORT = "import tests from './tests/index.mjs'; console.log(JSON.stringify(tests))"


def judge(tests, results, name):
    """What the suite says of a test (its test-engine/lib/results.mjs): passed, failed or not applied."""
    result = results.get(name)
    if any(judge(tests, results, needed) != "passed" for needed in tests[name].get("depends_on", [])):
        return "not applied"
    if result is True:
        return "passed"
    return "failed" if result and result[0] == "Assertion" else "not applied"


def run(suite, engine, options, work):
    """The results of the client of the suite, by test."""
    write(f"{work}/{engine}.toml", f'listen = ["127.0.0.1:{PORT}"]\narch = "{engine}"\nlog = "off"\nadmin = "off"\n[[site]]\n[[site.route]]\n'
          f'match = "/*"\nproxy = "http://127.0.0.1:{ORIGIN_PORT}"\ncache = {options.cache}\n')
    server = Server(engine, [options.binary, "serve", "--config", f"{work}/{engine}.toml"], PORT)
    try:
        environment = {**os.environ, "npm_config_base": f"http://127.0.0.1:{PORT}", "npm_package_config_id": ""}
        client = ["node", "--no-warnings", "test-engine/cli.mjs"]
        return json.loads(subprocess.run(client, cwd=suite, env=environment, stdout=subprocess.PIPE, timeout=600, check=True).stdout)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite")
    parser.add_argument("--engines", default="amped")
    parser.add_argument("--binary", default=os.path.join(ROOT, "target/debug/lamna"))
    parser.add_argument("--cache", default="true", help="the value of the route's key `cache`, in TOML")
    parser.add_argument("--named", action="store_true")
    options = parser.parse_args()
    exported = subprocess.run(["node", "--input-type=module", "-e", EXPORT], cwd=options.suite, stdout=subprocess.PIPE, check=True)
    tests = {test["id"]: test for group in json.loads(exported.stdout) for test in group["tests"] if not test.get("browser_only")}
    required_failed = False
    with tempfile.TemporaryDirectory() as work:
        origin = subprocess.Popen(
            ["node", "test-engine/server/server.mjs"], cwd=options.suite, stdout=subprocess.DEVNULL,
            env={**os.environ, "npm_config_port": str(ORIGIN_PORT), "npm_config_protocol": "http", "npm_config_pidfile": f"{work}/origin.pid"})
        try:
            for engine in options.engines.split(","):
                results = run(options.suite, engine, options, work)
                verdicts = {name: judge(tests, results, name) for name in tests}
                counts = collections.Counter((tests[name].get("kind", "required"), verdict) for name, verdict in verdicts.items())
                print(engine, *(f"{kind}: " + ", ".join(f"{counts[kind, verdict]} {verdict}" for verdict in ("passed", "failed", "not applied"))
                                for kind in ("required", "optimal", "check")), sep="; ", flush=True)
                for name, verdict in sorted(verdicts.items()):
                    is_required = tests[name].get("kind", "required") == "required"
                    required_failed |= is_required and verdict == "failed"
                    if verdict != "passed" and (options.named or is_required and verdict == "failed"):
                        print(f"  {name}: {verdict} ({tests[name].get('kind', 'required')}): {results.get(name)}")
        finally:
            origin.terminate()
            origin.wait()
    sys.exit(required_failed)


if __name__ == "__main__":
    main()
