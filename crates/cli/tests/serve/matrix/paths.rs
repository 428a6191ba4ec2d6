//! Spellings of a path meet a rule, and applications that read paths in their own ways.
//!
//! Owns: the model: a spelling is let through if no application finds a path in it that the rule is for and was not
//! judged by. Applications are models, too ([`readings`]): what they would find in the target that really came.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Differences, engines};
use crate::access::SESAME;
use crate::engine::Engine;
use crate::gateways::paths::Echo;
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};

const HEADS: [&str; 7] = ["/", "//", "/x/", "/x%2F", "/%2F", "/%5C", "//x/"];
const MIDDLES: [&str; 8] = ["", "../", "..%2F", "..;/", "%2e%2E/", "..%5C", "/", "./"];
const TAILS: [&str; 8] = ["admin", "admin/a", "%61dmin/a", "admin%2Fa", "admin//a", "adminx", "a", "a%2F"];

/// Beside the rule, all is for the application.
const RULE: &str = "[[site.route]]\nmatch = [\"/admin\", \"/admin/*\"]\naccess = { users = [\"ada\"] }\n";

fn is_admin(path: &str) -> bool {
    path == "/admin" || path.starts_with("/admin/")
}

fn decoded(path: &str, slash: &str, backslash: &str) -> String {
    let path = path.replace("%2F", slash).replace("%5C", backslash);
    path.replace("%61", "a").replace("%2e", ".").replace("%2E", ".")
}

/// Resolves dot segments, and merges slashes if that is so.
fn resolved(path: &str, merges: bool) -> Option<String> {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path[1..].split('/') {
        match segment {
            "." => {}
            "" if merges => {}
            ".." => _ = segments.pop()?,
            other => segments.push(other),
        }
    }
    Some(format!("/{}", segments.join("/")))
}

/// What applications find in a target.
fn readings(target: &str) -> Vec<String> {
    let without_parameters = |path: &str| path.replace("..;", "..");
    let mut found = vec![target.to_owned()];
    for (slash, backslash) in [("/", "\\"), ("/", "/"), ("%2F", "\\"), ("%2F", "/")] {
        let whole = decoded(target, slash, backslash);
        found.push(whole.clone());
        let of_servlets = without_parameters(&whole);
        for path in [whole, of_servlets] {
            found.extend([true, false].into_iter().filter_map(|merges| resolved(&path, merges)));
        }
    }
    found
}

/// The status for a client that is not known. Of scripts, none is asked for where a name begins with a dot.
fn verdict(path: &str, gateway: &str) -> u16 {
    let is_split_otherwise = path.contains("%2F") || path.contains("%5C");
    let dots = |path: &str| path.split('/').filter(|one| matches!(*one, "." | "..")).count();
    let is_hidden = path.contains("..;")
        || dots(&decoded(path, "/", "/")) > 0 && is_split_otherwise
        || resolved(&decoded(path, "", ""), true).is_none();
    match resolved(&decoded(path, "/", "\\"), true) {
        // A dot segment beside an encoded slash leaves no path for rules.
        Some(judged) if is_admin(&judged) && !(path.contains("%2F") && is_hidden) => 401,
        Some(judged) if judged.contains("/.") && gateway == "cgi" && !path.contains("%2F") => 404,
        _ if is_hidden => 400,
        // Two slashes at the beginning may stand before a host: there is one, or none of this path.
        _ if is_split_otherwise && readings(path).iter().any(|one| is_admin(one) || one.starts_with("//")) => 400,
        _ => 200,
    }
}

fn launch(engine: Engine, echo: &Echo) -> [(&'static str, Server); 2] {
    let site = format!("request_limit = \"off\"\n[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n{RULE}");
    let start = |launch: Launch, route: &str| {
        launch.argument("--h2c").config(&format!("{site}[[site.route]]\nmatch = \"/*\"\n{route}\n")).start()
    };
    let proxy = start(Launch::new(engine), &format!("proxy = \"http://{}\"", echo.address));
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s' \"$REQUEST_URI\"\n";
    let launch = Launch::new(engine).file("index.cgi", script);
    fs::set_permissions(launch.site().join("index.cgi"), fs::Permissions::from_mode(0o755)).unwrap();
    let cgi = start(launch, "cgi = { extensions = [\"cgi\"] }\ntry = [\"$path\", \"/index.cgi\"]");
    [("proxy", proxy), ("cgi", cgi)]
}

/// Status and content, by HTTP/1.1 and by HTTP/2.
fn ask(server: &Server, path: &str, is_http2: bool) -> (u16, String) {
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    if is_http2 {
        let answers = Http2::connect(server.address()).ask(vec![request("GET", path, &[])]);
        let answer = answers.into_iter().next().expect("one was asked for").expect("it is answered");
        return (answer.status, text(&answer.content));
    }
    let response = server.connect().get(path).expect("it is answered");
    (response.status, text(&response.content))
}

#[test]
fn no_spelling_leads_past_a_rule() {
    let mut differences = Differences::default();
    let echo = Echo::start();
    for &engine in engines() {
        for (gateway, server) in launch(engine, &echo) {
            let middles = |head: &'static str| MIDDLES.map(|middle| format!("{head}{middle}"));
            let paths = HEADS.into_iter().flat_map(middles);
            for path in paths.flat_map(|start| TAILS.map(|tail| format!("{start}{tail}"))) {
                for is_http2 in [false, true] {
                    let (status, target) = ask(&server, &path, is_http2);
                    let expected = verdict(&path, gateway);
                    let fault = match status {
                        _ if status != expected => Some(format!("{status} in place of {expected}")),
                        200 => readings(&target).into_iter().find(|one| is_admin(one) || one.starts_with("//")),
                        _ => None,
                    };
                    differences.count(|| format!("{engine:?} {gateway} {path} (HTTP/2: {is_http2})"), fault);
                }
            }
            server.finish();
        }
    }
    differences.settle("spellings of paths", 1_500);
}
