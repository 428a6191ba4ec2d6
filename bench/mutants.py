#!/usr/bin/env python3
"""Whether the crossing matrices find it when one check is taken out.

    bench/mutants.py [--only NAME,...] [--tree DIRECTORY]

Each mutant takes one check out of a copy of the tree, builds the tests, and runs the matrix that has to fail. The copy is a work tree of git
beneath target/mutants with a build directory of its own; `--tree` names another work tree, which is used as it is and put back. Told is for each
mutant whether the matrix failed, and in how many of its cases. A mutant that no matrix finds, or that does not build, is an error.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTENT = "matrix::content::content_reaches"
ANSWERS = "matrix::content::answers_have"
EARLY = "matrix::content::early_answers"
TRANSPORT = "matrix::transport::"
USERS = "matrix::admission::things_of_users"
NETWORKS = "matrix::admission::things_of_networks"
LIMIT = "matrix::admission::things_beyond_a_limit"
OPEN = "matrix::admission::things_for_everybody"
CERTIFICATES = "matrix::admission::things_for_certificates"
KEPT = "matrix::kept::"

SITE, ENGINE, TLS, PROTO = (f"crates/{name}/src/" for name in ("site", "engine", "tls", "proto"))

# Name, file, what stands there, what is put in its place, the matrix that has to fail. Where two checks stand behind each other, the second
# one's file and texts follow: both are taken out.
MUTANTS = [
    ("clear-text-is-served", SITE + "content/admission.rs", "if !says_https() => Standing::Led", "if !says_https() => Standing::Served", TRANSPORT),
    ("every-plain-socket-is-local", ENGINE + "worker/transport.rs", "None if self.is_local => Way::Local", "None => Way::Local", TRANSPORT),
    ("another-certificate-will-do", SITE + "content/admission.rs",
     "(Way::Secured(over), Demand::Client { identity, may_lack }) if over.identity == identity => {",
     "(Way::Secured(over), Demand::Client { identity, may_lack }) if over.identity == identity || !may_lack => {", TRANSPORT),
    ("authorities-of-yesterday", SITE + "content/admission.rs",
     "_ if authorities.is_none() || over.authorities != authorities => Standing::Misdirected,", "", TRANSPORT),
    ("a-proxy-needs-no-certificate", SITE + "content/admission.rs",
     "(Way::Clear | Way::Local, Demand::Client { may_lack: false, .. }) => Standing::Unknown,",
     "(Way::Clear | Way::Local, Demand::Client { may_lack: false, .. }) => Standing::Served,", TRANSPORT),
    ("tickets-of-one-key", TLS + "endpoint.rs", "let tickets = pair.clients.is_none().then(|| tickets.bound_to(pair.chain_digest()));",
     "let tickets = Some(tickets.bound_to(Default::default()));", TRANSPORT),
    ("scripts-are-not-judged", ENGINE + "worker/context/scripts.rs", "if verdict.is_none() {", "if verdict.is_none() && place.is_empty() {", USERS),
    ("scripts-are-not-counted", ENGINE + "worker/context/scripts.rs", "if is_counted && let Err", "if !is_counted && let Err", LIMIT),
    ("content-is-not-counted", PROTO + "exchange/saved.rs", "redirected: None, asked: 0 }", "redirected: None, asked: 1 }", LIMIT),
    ("what-is-led-to-is-for-all", SITE + "content/route.rs", "(!self.keeps_out || is_let())", "(true || is_let())", USERS),
    ("networks-are-not-asked", SITE + "content/access.rs", "if rules.iter().any(is_kept_out) {",
     "if rules.iter().any(is_kept_out) && rules.is_empty() {", NETWORKS),
    ("names-are-for-all", SITE + "content/directory.rs", "if !folders.all(", "if name.is_empty() && !folders.all(", USERS),
    ("archives-are-for-all", SITE + "content/tree.rs", "if !self.site().routes.keep_out() {", "if !path.is_empty() {", USERS,
     SITE + "content/directory.rs", "if !folders.all(", "if name.is_empty() && !folders.all("),
    ("methods-say-what-content-there-is", PROTO + "message.rs", "None if self.head.is_open => Content::Unsized,",
     "None if self.head.is_open && self.head.method == Method::Post => Content::Unsized,", CONTENT),
    ("an-announced-length-is-forgotten", PROTO + "gateway/cgi/answer.rs", "content_bytes: length(fields)?, local",
     "content_bytes: length(fields)?.filter(|bytes| *bytes == u64::MAX), local", ANSWERS),
    ("sizes-come-first", PROTO + "exchange/answer.rs", "    !(200..300).contains(&status.0)\n", "    status.0 == 0\n", EARLY),
    ("redirects-are-for-readers", ENGINE + "worker/context/responders.rs", "redirect.as_ref().is_some_and(|(redirect, _)| !redirect.if_missing)",
     "redirect.as_ref().is_some_and(|(redirect, _)| redirect.if_missing)", EARLY),
    ("an-empty-host-is-some-host", PROTO + "conn/http1/rules.rs", "if has_empty_host => Err(Refusal::HostInvalid)",
     "if has_empty_host && request.head.length == 0 => Err(Refusal::HostInvalid)", OPEN),
]


def run(tree, environment, *command, quiet=True):
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names, with commas between them")
    parser.add_argument("--tree", type=pathlib.Path, help="a work tree to do it in")
    arguments = parser.parse_args()
    tree, environment = arguments.tree, dict(os.environ)
    if tree is None:
        tree = ROOT / "target/mutants/tree"
        environment["CARGO_TARGET_DIR"] = str(ROOT / "target/mutants/build")
        if not tree.exists():
            subprocess.run(["git", "worktree", "add", "--detach", str(tree), "HEAD"], cwd=ROOT, check=True)
    wanted = arguments.only.split(",") if arguments.only else [name for name, *_ in MUTANTS]
    missed = []
    for name, file, old, new, matrix, *second in MUTANTS:
        if name not in wanted:
            continue
        edits = [(file, old, new), *([tuple(second)] if second else [])]
        before = {path: (tree / path).read_text() for path, _, _ in edits}
        absent = [path for path, old, _ in edits if before[path].count(old) != 1]
        if absent:
            missed.append(name)
            print(f"{name}: {', '.join(absent)} does not have the check once", flush=True)
            continue
        try:
            for path, old, new in edits:
                (tree / path).write_text(before[path].replace(old, new))
            code, said = run(tree, environment, "cargo", "test", "-q", "-p", "lamna", "--test", "serve", "--", matrix)
        finally:
            for path, text in before.items():
                (tree / path).write_text(text)
        differs = re.findall(r"differ in (\d+) of (\d+) cases", said)
        if differs:
            found = ", ".join(f"{count} of {cases} cases" for count, cases in differs)
            print(f"{name}: found by {matrix} in {found}", flush=True)
        else:
            missed.append(name)
            why = "not found" if code == 0 else said.strip().splitlines()[-1][:200]
            print(f"{name}: {why}", flush=True)
    print(f"{len(wanted) - len(missed)} found, {len(missed)} not" + (": " + ", ".join(missed) if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
