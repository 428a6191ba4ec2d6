//! The matrix of changes: what a client that a rule keeps out asks for changes nothing behind that rule, and brings
//! nothing of it to where it may be read, whatever method it comes with, whichever of two paths the rule is for, and by
//! whatever path it reaches what is behind it.
//!
//! Owns: the changes, and what is expected of each. Does not look at the words of refusals.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::admission::{WHO, Who, fields_of};
use super::things::Rule;
use super::ways::{Backend, Seen, Visitor, Way};
use super::{Differences, engines};
use crate::access::{OTHER, SESAME};
use crate::engine::Engine;
use crate::server::{Launch, Server};
use crate::tls::{client_config, make_clients, make_pair};

/// A change of what a server has: a method, a target, a destination, and the content.
struct Change {
    method: &'static str,
    /// `R` stands for the name of the rule.
    target: &'static str,
    to: &'static str,
    content: &'static str,
    /// Whether a part of it is done for clients that the rule keeps out.
    is_partial: bool,
    /// Whether it is asked for by another path of what is behind the rule. Clients that the rule lets in may be refused
    /// then.
    is_by_another: bool,
}

const fn change(method: &'static str, target: &'static str, to: &'static str) -> Change {
    Change { method, target, to, content: "", is_partial: false, is_by_another: false }
}

const fn with_content(method: &'static str, target: &'static str, content: &'static str) -> Change {
    Change { content, ..change(method, target, "") }
}

/// Of a folder that is for everybody, and has a file in it that is behind the rule.
const fn of_mixed(method: &'static str, target: &'static str, to: &'static str) -> Change {
    Change { is_partial: true, ..change(method, target, to) }
}

const fn by_another(change: Change) -> Change {
    Change { is_by_another: true, ..change }
}

const LOCK: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
const SET: &str =
    "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><a xmlns='x:'>b</a></D:prop></D:set></D:propertyupdate>";
const FORM: &str = "--b\r\nContent-Disposition: form-data; filename=\"secret.txt\"\r\n\r\nnew\r\n--b--\r\n";

const CHANGES: &[Change] = &[
    with_content("PUT", "/R/new.txt", "new\n"),
    with_content("PUT", "/R/secret.txt", "new\n"),
    with_content("PUT", "/all/../R/%73ecret.txt", "new\n"),
    with_content("POST", "/R/", FORM),
    with_content("POST", "/R/secret.txt?delete", "x"),
    with_content("POST", "/R/?mkdir", "name=new"),
    with_content("PROPPATCH", "/R/secret.txt", SET),
    with_content("LOCK", "/R/secret.txt", LOCK),
    with_content("LOCK", "/R/new.txt", LOCK),
    change("DELETE", "/R/secret.txt", ""),
    change("DELETE", "/R", ""),
    change("MKCOL", "/R/new", ""),
    // From behind the rule.
    change("COPY", "/R/secret.txt", "/all/got.txt"),
    change("MOVE", "/R/secret.txt", "/all/got.txt"),
    change("COPY", "//R/secret.txt", "/all/a.txt"),
    change("COPY", "/R", "/all/got"),
    change("MOVE", "/R", "/all/got"),
    change("COPY", "/R/link.txt", "/all/got.txt"),
    // To behind the rule.
    change("COPY", "/all/a.txt", "/R/new.txt"),
    change("MOVE", "/all/a.txt", "/R/new.txt"),
    change("COPY", "/all/a.txt", "/R/secret.txt"),
    change("MOVE", "/all/a.txt", "/all/../R/secret.txt"),
    change("COPY", "/all/tree", "/R/tree"),
    change("MOVE", "/all/tree", "/R"),
    // Within.
    change("MOVE", "/R/secret.txt", "/R/other.txt"),
    // Around it.
    of_mixed("COPY", "/mixed", "/all/got"),
    of_mixed("MOVE", "/mixed", "/all/got"),
    of_mixed("DELETE", "/mixed", ""),
    of_mixed("COPY", "/all/tree", "/mixed"),
    of_mixed("MOVE", "/all/tree", "/mixed"),
    of_mixed("COPY", "/", "/all/all"),
    // By an alias of the root, and by a link to the folder.
    by_another(with_content("PUT", "/alias/R/new.txt", "new\n")),
    by_another(with_content("PUT", "/alias/R/secret.txt", "new\n")),
    by_another(with_content("PUT", "/link/new.txt", "new\n")),
    by_another(with_content("PUT", "/link/secret.txt", "new\n")),
    by_another(with_content("POST", "/alias/R/", FORM)),
    by_another(with_content("POST", "/link/", FORM)),
    by_another(with_content("POST", "/alias/R/secret.txt?delete", "x")),
    by_another(with_content("POST", "/link/?mkdir", "name=new")),
    by_another(with_content("PROPPATCH", "/alias/R/secret.txt", SET)),
    by_another(with_content("PROPPATCH", "/link/secret.txt", SET)),
    by_another(with_content("LOCK", "/alias/R/secret.txt", LOCK)),
    by_another(with_content("LOCK", "/link/new.txt", LOCK)),
    by_another(change("DELETE", "/alias/R/secret.txt", "")),
    by_another(change("DELETE", "/link/secret.txt", "")),
    by_another(change("DELETE", "/alias/R", "")),
    by_another(change("MKCOL", "/alias/R/new", "")),
    by_another(change("MKCOL", "/link/new", "")),
    by_another(change("COPY", "/alias/R/secret.txt", "/all/got.txt")),
    by_another(change("MOVE", "/alias/R/secret.txt", "/all/got.txt")),
    by_another(change("COPY", "/link/secret.txt", "/all/got.txt")),
    by_another(change("MOVE", "/link/secret.txt", "/all/got.txt")),
    by_another(change("COPY", "/all/of-secret.txt", "/all/got.txt")),
    by_another(change("COPY", "/alias/R", "/all/got")),
    by_another(change("MOVE", "/alias/R", "/all/got")),
    by_another(change("COPY", "/link", "/all/got")),
    of_mixed("COPY", "/alias/mixed", "/all/got"),
    of_mixed("MOVE", "/alias/mixed", "/all/got"),
    of_mixed("DELETE", "/alias/mixed", ""),
    of_mixed("COPY", "/all", "/got"),
    by_another(change("COPY", "/all/a.txt", "/alias/R/new.txt")),
    by_another(change("COPY", "/all/a.txt", "/link/new.txt")),
    by_another(change("MOVE", "/all/a.txt", "/alias/R/secret.txt")),
    by_another(change("MOVE", "/all/a.txt", "/link/secret.txt")),
    by_another(change("COPY", "/all/tree", "/alias/R/tree")),
    by_another(change("MOVE", "/all/tree", "/link/tree")),
];

const RULES: [Rule; 9] = [
    Rule::Open,
    Rule::User,
    Rule::Token,
    Rule::Network,
    Rule::Certificate,
    Rule::Service,
    Rule::Maintenance,
    Rule::Fixed,
    Rule::Nowhere,
];
const WAYS: [Way; 4] = [Way::Plain, Way::H2c, Way::Tls, Way::TlsH2];

fn config(rule: Rule, keys: &str, service: SocketAddr) -> String {
    let (r, keys_of_rule) = (rule.name(), rule.keys(service));
    let maintenance = match rule {
        Rule::Maintenance => "maintenance = { except = [\"192.0.2.0/24\"] }\n",
        _ => "",
    };
    format!(
        "limit_exempt = []\nrequest_limit = \"off\"\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\nroot = \"site\"\nhosts = [\"site.test\"]\n\
         {keys}{maintenance}upload = true\ndelete = true\nmkdir = true\nwebdav = true\nbrowse = true\n\
         users = {{ ada = \"{SESAME}\", bob = \"{OTHER}\" }}\n\
         tokens = {{ ci = \"sha256:f39dac6cbaba535e2c207cd0cd8f154974223c848f727f98b3564cea569b41cf\" }}\n\
         [[site.alias]]\nprefix = \"/alias/\"\nroot = \"site\"\n\
         [[site.route]]\nmatch = [\"/{r}\", \"/{r}/*\", \"/mixed/x-{r}.txt\"]\n{keys_of_rule}"
    )
}

/// The files of the site, as they are before each change.
fn plant(site: &Path, rule: Rule) {
    for name in fs::read_dir(site).expect("it is there").flatten().map(|entry| entry.path()) {
        if name.is_dir() { fs::remove_dir_all(&name) } else { fs::remove_file(&name) }.expect("it is the test's");
    }
    let r = rule.name();
    let secret = format!("SECRET-{r}\n");
    for (name, content) in [
        (format!("{r}/secret.txt"), &*secret),
        (format!("mixed/x-{r}.txt"), &secret),
        ("mixed/public.txt".to_owned(), "public\n"),
        ("all/a.txt".to_owned(), "a\n"),
        ("all/tree/b.txt".to_owned(), "b\n"),
    ] {
        let path = site.join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
        fs::write(path, content).expect("there is room");
    }
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, site.join(name)).expect("it is not there");
    link("secret.txt", &format!("{r}/link.txt"));
    link(r, "link");
    link(&format!("../{r}/secret.txt"), "all/of-secret.txt");
}

/// What there is, by its path: the content of files, and properties that clients have set. Hidden names are the
/// server's own.
fn state(folder: &Path, at: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().expect("it is UTF-8");
        let (path, at) = (entry.path(), format!("{at}/{name}"));
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            found.insert(at.clone() + "/", String::new());
            state(&path, &at, found);
        } else {
            let mut properties = [0; 256];
            let properties_bytes =
                rustix::fs::getxattr(&path, "user.lamna.properties", &mut properties[..]).unwrap_or(0);
            let content = fs::read_to_string(&path).unwrap_or_default();
            found.insert(at, format!("{content}{properties_bytes}"));
        }
    }
}

fn state_of(site: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    state(site, "", &mut found);
    found
}

/// The part of it that is behind the rule.
fn guarded(state: &BTreeMap<String, String>, rule: Rule) -> BTreeMap<&String, &String> {
    let (folder, file) = (format!("/{}/", rule.name()), format!("/mixed/x-{}.txt", rule.name()));
    state.iter().filter(|(path, _)| path.starts_with(&folder) || **path == file).collect()
}

/// The model: whether a client may make a change. A service is not asked about destinations, which nobody reaches.
fn may(rule: Rule, who: Who, change: &Change) -> bool {
    let is_asked = rule != Rule::Service || !change.to.contains('R') && !change.is_by_another;
    let is_for_nobody = matches!(rule, Rule::Fixed | Rule::Nowhere);
    rule == Rule::Open || who == Who::Right && is_asked && !is_for_nobody
}

/// What is wrong with what came of a change, if something is.
fn judge(
    change: &Change,
    rule: Rule,
    is_let_in: bool,
    seen: &Seen,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Option<String> {
    // Forms lead back to the listing.
    let has_done = (200..300).contains(&seen.status) || change.method == "POST" && seen.status == 303;
    let told = |what: &str| Some(format!("{what}, status {} ({:.200}): {after:?}", seen.status, seen.text));
    if seen.status == 0 {
        return told("no answer");
    }
    if is_let_in {
        let is_refused_to_all = change.target.contains("link") || change.is_by_another && rule != Rule::Open;
        let fails = !has_done && !is_refused_to_all && !change.is_partial;
        return if fails { told("it is not let in") } else { None };
    }
    let secret = format!("SECRET-{}", rule.name());
    let is_elsewhere = after
        .iter()
        .any(|(path, content)| content.contains(&secret) && before.get(path).is_none_or(|one| one != content));
    match () {
        () if is_elsewhere || seen.text.contains(&secret) => told("it is read"),
        () if guarded(before, rule) != guarded(after, rule) => told("it is changed"),
        () if rule == Rule::Maintenance && (before != after || seen.status != 503) => told("it is not in maintenance"),
        () if has_done && !change.is_partial => told("it is done"),
        () if seen.status >= 500 && rule != Rule::Maintenance => told("the server fails"),
        () => None,
    }
}

fn try_changes(
    server: &Server,
    way: Way,
    rule: Rule,
    configs: &[Arc<rustls::ClientConfig>; 3],
    found: &mut Differences,
) {
    let (site, r) = (server.site(), rule.name());
    for who in WHO {
        let mut visitor = Visitor::new(way, server).config(&configs[who as usize]);
        for change in CHANGES {
            plant(&site, rule);
            let before = state_of(&site);
            let target = change.target.replace('R', r);
            // A client of HTTP/2 cannot say it otherwise.
            if super::ways::is_http2(way) && target.starts_with("//") {
                continue;
            }
            let mut fields = fields_of(way, rule, who);
            let mut add = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
            if !change.to.is_empty() {
                add("destination", &change.to.replace('R', r));
            }
            if change.content == FORM {
                add("content-type", "multipart/form-data; boundary=b");
            }
            let seen = visitor.ask_with(change.method, &target, &fields, change.content);
            let fault = judge(change, rule, may(rule, who, change), &seen, &before, &state_of(&site));
            found.count(|| format!("{way:?} {rule:?} {who:?} {} {target} {}", change.method, change.to), fault);
            let token = seen.text.lines().find_map(|line| line.strip_prefix("lock-token: "));
            if let Some(token) = token.or(seen.text.lines().find_map(|line| line.strip_prefix("Lock-Token: "))) {
                fields.push(("lock-token".to_owned(), token.to_owned()));
                assert_eq!(visitor.ask("UNLOCK", &target, &fields).status, 204);
            }
        }
    }
}

fn changes(engine: Engine, rule: Rule, found: &mut Differences) {
    let backend = Backend::start();
    // Only TLS shows certificates.
    for is_secured in [false, true].into_iter().filter(|is_secured| *is_secured || rule != Rule::Certificate) {
        let keys = "certificate = \"certificate.pem\"\nkey = \"key.pem\"\nclient_ca = \"ca.pem\"\nclient_certificates = \"optional\"\n";
        let keys = if is_secured { keys } else { "" };
        let launch = Launch::new(engine).file("all/a.txt", "a\n").config(&config(rule, keys, backend.address));
        let pem = make_pair(launch.directory(), &["site.test"]);
        let [alice, bob] = make_clients(launch.directory(), ["alice", "bob"]);
        let nobody = client_config(pem.as_bytes());
        let configs = [nobody.clone(), bob.config(nobody.clone()), alice.config(nobody)].map(Arc::new);
        let server = if is_secured { launch.start() } else { launch.argument("--h2c").start() };
        for way in WAYS.into_iter().filter(|way| way.is_secured() == is_secured) {
            try_changes(&server, way, rule, &configs, found);
        }
        server.finish();
    }
}

#[test]
fn nothing_behind_a_rule_is_changed_or_carried_out() {
    let mut found = Differences::default();
    for engine in engines() {
        RULES.iter().for_each(|rule| changes(*engine, *rule, &mut found));
    }
    found.settle("changes", 2_000);
}
