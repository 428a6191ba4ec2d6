//! The site of the matrix of admission: rules, and the ways to a thing behind a rule.
//!
//! Owns: its configuration and its files, and what the model has to know of both. Each thing behind rule `r` holds
//! `SECRET-r`, in its content or among its fields, or is a name that holds `x-r`.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::access::{OTHER, SESAME};
use crate::server::Launch;

/// Who may have what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Everybody.
    Open,
    /// Ada, by her password.
    User,
    /// Who shows a token.
    Token,
    /// Clients of 192.0.2.0/24.
    Network,
    /// Alice, by her certificate.
    Certificate,
    /// Whom a service lets in, by a session.
    Service,
    /// Nobody, because the limit is used up.
    Limit,
    /// Clients of 192.0.2.0/24, because the site is in maintenance for all others.
    Maintenance,
    /// Nobody, because a route has a fixed answer.
    Fixed,
    /// Nobody, because a route leads to a hidden name.
    Nowhere,
}

impl Rule {
    pub(super) fn name(self) -> &'static str {
        match self {
            Rule::Open => "open",
            Rule::User => "user",
            Rule::Token => "token",
            Rule::Network => "network",
            Rule::Certificate => "certificate",
            Rule::Service => "service",
            Rule::Limit => "limit",
            Rule::Maintenance => "maintenance",
            Rule::Fixed => "refused",
            Rule::Nowhere => "nowhere",
        }
    }

    /// Whether it goes by the network of a client.
    pub(super) fn goes_by_network(self) -> bool {
        matches!(self, Rule::Network | Rule::Maintenance)
    }

    /// The keys of a route by which it keeps others out.
    pub(super) fn keys(self, service: SocketAddr) -> String {
        let rule = match self {
            Rule::Fixed => return "respond = 403\n".to_owned(),
            Rule::Nowhere => return "rewrite = \"/.denied\"\ntry = []\n".to_owned(),
            Rule::Open | Rule::Limit | Rule::Maintenance => "anyone = true".to_owned(),
            Rule::User => "users = [\"ada\"]".to_owned(),
            Rule::Token => "tokens = [\"ci\"]".to_owned(),
            Rule::Network => "allow = [\"192.0.2.0/24\"]".to_owned(),
            Rule::Certificate => "certificates = [\"CN=alice\"]".to_owned(),
            Rule::Service => format!("service = {{ to = \"http://{service}\", path = \"/verify\" }}"),
        };
        format!("access = {{ {rule} }}\n")
    }
}

/// How a request comes to a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// By the path that its rule is for, or one beneath it.
    ByItsPath,
    /// By another path, which is for everybody.
    ByAnother,
    /// As a part of something that is for everybody, which is answered without it.
    InAnother,
}

/// What a thing does with a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is read.
    File,
    /// It is read, and only GET shows its name.
    Names,
    /// It is told of by PROPFIND.
    Mounted,
    /// It is run, whatever the method.
    Runs,
}

/// A way to a thing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thing {
    /// The target, in which `R` stands for the name of the rule.
    pub(super) target: &'static str,
    pub(super) reached: Reached,
    pub(super) kind: Kind,
    /// Whether the limit of the rule, which goes by the beginning of paths, is for it.
    pub(super) is_limited: bool,
}

const fn thing(target: &'static str, reached: Reached, kind: Kind, is_limited: bool) -> Thing {
    Thing { target, reached, kind, is_limited }
}

use Kind::{File, Mounted, Names, Runs};
use Reached::{ByAnother, ByItsPath, InAnother};

/// All ways to things.
pub(super) const THINGS: &[Thing] = &[
    // As a file, in several spellings.
    thing("/R/secret.txt", ByItsPath, File, true),
    thing("/R/%73ecret.txt", ByItsPath, File, true),
    thing("//R///secret.txt", ByItsPath, File, true),
    thing("/open/../R/./secret.txt", ByItsPath, File, true),
    thing("/R/secret.txt?x=1", ByItsPath, File, true),
    thing("/R/packed.txt", ByItsPath, File, true),
    thing("/R/packed.txt.gz", ByItsPath, File, true),
    thing("/x-R.txt", ByItsPath, File, false),
    thing("/R/link.txt", ByItsPath, File, true),
    // As an index file.
    thing("/R/in/", ByItsPath, File, true),
    thing("/fx-R/", ByAnother, File, false),
    thing("/fx-R/index.html", ByItsPath, File, false),
    // As a script: itself, with a path behind it, as an index file.
    thing("/R/run.cgi", ByItsPath, Runs, true),
    thing("/R/run.cgi/info", ByItsPath, Runs, true),
    thing("/x-R.cgi", ByItsPath, Runs, false),
    thing("/x-R.cgi/", ByItsPath, Runs, false),
    thing("/x-R.cgi/info/more", ByItsPath, Runs, false),
    thing("/x-R%2ecgi/info", ByItsPath, Runs, false),
    thing("/R/ix/", ByItsPath, Runs, true),
    thing("/ix-R/", ByAnother, Runs, false),
    thing("/ix-R/index.cgi", ByItsPath, Runs, false),
    // As an application.
    thing("/R/app/x", ByItsPath, Runs, true),
    thing("/R/kept/x", ByItsPath, Runs, true),
    // As an application behind files, or as a file before it.
    thing("/R/behind/x", ByItsPath, Runs, true),
    thing("/R/behind/.well-known/x", ByItsPath, Runs, true),
    thing("/R/behind/file.txt", ByItsPath, File, true),
    thing("/behind-R/secret.txt", ByAnother, File, false),
    // As an application with a name.
    thing("/R/named/x", ByItsPath, Runs, true),
    thing("/R/last/x", ByItsPath, Runs, true),
    thing("/R/last/file.txt", ByItsPath, File, true),
    // As a fixed answer, and as the file of one.
    thing("/R/fixed", ByItsPath, Runs, true),
    thing("/fixed-R", ByAnother, File, false),
    thing("/refused-R", InAnother, File, false),
    // As a folder: its names, archives of it, searching it.
    thing("/R/names/", ByItsPath, Names, true),
    thing("/R/names/?download=tar", ByItsPath, Names, true),
    thing("/R/names/?download=zip", ByItsPath, Names, true),
    thing("/R/names/?q=needle", ByItsPath, Names, true),
    thing("/all-R/", InAnother, Names, false),
    thing("/all-R/?download=tar", InAnother, Names, false),
    thing("/all-R/?download=zip", InAnother, Names, false),
    thing("/all-R/?q=needle", InAnother, Names, false),
    // As a folder that is mounted.
    thing("/R/dav/", ByItsPath, Names, true),
    thing("/R/dav", ByItsPath, Mounted, true),
    thing("/R/dav/x-R.html", ByItsPath, Mounted, true),
    thing("/dav-R/", InAnother, Names, false),
    thing("/dav-R/link/x-R.html", ByAnother, Mounted, false),
    // As a section and an overview of a page, and a part of one.
    thing("/R/page.html?section=inner", ByItsPath, File, true),
    thing("/R/page.html?view=outline", ByItsPath, File, true),
    thing("/sections-R/page.html?section=inner", ByAnother, File, false),
    thing("/including-R.html", InAnother, File, false),
    // By a path that is led to its own.
    thing("/try-R/secret.txt", ByAnother, File, false),
    thing("/rewrite-R/secret.txt", ByAnother, File, false),
    thing("/clean-R/x", ByAnother, File, false),
    thing("/try-R/run.cgi", ByAnother, Runs, true),
    thing("/try-R/run.cgi/info", ByAnother, Runs, true),
    thing("/rewrite-R/run.cgi", ByAnother, Runs, true),
    thing("/rewrite-R/run.cgi/info", ByAnother, Runs, true),
    thing("/scripted-R/x", ByAnother, Runs, false),
    thing("/redirected-R/secret.txt", ByAnother, File, false),
    thing("/redirected-R/run.cgi", ByAnother, Runs, true),
    thing("/missing-R/gone", InAnother, File, false),
    thing("/wrong-R/gone", InAnother, File, false),
];

/// What a search finds and an archive holds, and a listing names.
const NEEDLE: &str = "<!doctype html><title>x</title><p>the needle\n";

/// The lines of a configuration with one site, whose other keys are `site_lines`.
pub(super) fn config(rules: &[Rule], site_lines: &str, service: SocketAddr, application: SocketAddr) -> String {
    let maintenance = match rules.contains(&Rule::Maintenance) {
        true => "maintenance = { except = [\"192.0.2.0/24\"] }\n",
        false => "",
    };
    let mut text = format!(
        "limit_exempt = []\nrequest_limit = \"off\"\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\nroot = \"site\"\nhosts = [\"site.test\"]\n\
         {site_lines}{maintenance}rule_files = true\nbrowse = true\nindex = [\"index.html\", \"index.cgi\"]\n\
         users = {{ ada = \"{SESAME}\", bob = \"{OTHER}\" }}\n\
         tokens = {{ ci = \"sha256:f39dac6cbaba535e2c207cd0cd8f154974223c848f727f98b3564cea569b41cf\" }}\n\
         [[site.application]]\nname = \"app\"\nproxy = \"http://{application}\"\n\
         [[site.route]]\nmatch = \"/*\"\nsearch = true\ncgi = {{ extensions = [\"cgi\"] }}\n"
    );
    for rule in rules {
        let (r, access) = (rule.name(), rule.keys(service));
        text += &format!(
            "[[site.route]]\nmatch = [\"/{r}/*\", \"/x-{r}.cgi\", \"/x-{r}.txt\", \"/x-{r}.html\", \"/ix-{r}/index.cgi\", \"/fx-{r}/index.html\", \
             \"/all-{r}/x-{r}.html\", \"/all-{r}/folder/*\", \"/dav-{r}/x-{r}.html\"]\n{access}\
             [[site.route]]\nmatch = [\"/{r}/dav/*\", \"/{r}/dav\", \"/dav-{r}/*\"]\nwebdav = true\ncgi = false\n\
             [[site.route]]\nmatch = \"/{r}/app/*\"\nproxy = \"http://{application}\"\n\
             [[site.route]]\nmatch = \"/{r}/kept/*\"\nproxy = \"http://{application}\"\ncache = {{ fresh_s = 600 }}\n\
             [[site.route]]\nmatch = \"/{r}/behind/*\"\ntry = [\"$path\"]\nproxy = \"http://{application}\"\n\
             [[site.route]]\nmatch = \"/behind-{r}/*\"\ntry = [\"/{r}/$1\"]\nproxy = \"http://{application}\"\n\
             [[site.route]]\nmatch = \"/{r}/named/*\"\napplication = \"app\"\n\
             [[site.route]]\nmatch = \"/{r}/last/*\"\ntry = [\"$path\", \"@app\"]\n\
             [[site.route]]\nmatch = \"/{r}/page.html\"\nstructured = true\n\
             [[site.route]]\nmatch = \"/sections-{r}/*\"\nrewrite = \"/{r}/$1\"\nstructured = true\n\
             [[site.route]]\nmatch = \"/including-{r}.html\"\nfilters = [\"include\"]\n\
             [[site.route]]\nmatch = \"/try-{r}/*\"\ntry = [\"/{r}/$1\"]\n\
             [[site.route]]\nmatch = \"/rewrite-{r}/*\"\nrewrite = \"/{r}/$1\"\n\
             [[site.route]]\nmatch = \"/clean-{r}/*\"\ntry = [\"/$1-{r}.txt\"]\n\
             [[site.route]]\nmatch = \"/scripted-{r}/*\"\ntry = [\"/x-{r}.cgi\"]\n\
             [[site.route]]\nmatch = \"/{r}/fixed\"\n\
             respond = {{ text = \"SECRET-{r}\", headers = {{ X-Secret = \"SECRET-{r}\" }} }}\n\
             [[site.route]]\nmatch = \"/fixed-{r}\"\nrespond = {{ file = \"/x-{r}.html\" }}\n\
             [[site.route]]\nmatch = \"/refused-{r}\"\nrespond = 410\nerror_pages = {{ \"410\" = \"/x-{r}.html\" }}\n\
             [[site.route]]\nmatch = \"/missing-{r}/*\"\nerror_pages = {{ \"404\" = \"/x-{r}.html\" }}\n"
        );
    }
    if rules.contains(&Rule::Limit) {
        text += "[[site.limit]]\npath = \"/limit/\"\nrequests = \"1/h burst 1\"\n";
    }
    text
}

/// The files of the site.
pub(super) fn plant(launch: Launch, rules: &[Rule]) -> Launch {
    let mut launch = launch.file("open.html", "open\n");
    let mut redirects = String::new();
    for rule in rules {
        let r = rule.name();
        let secret = format!("SECRET-{r}\n");
        let page = format!(
            "<!doctype html><html><body><h1 id=top>Top</h1><h2 id=inner>SECRET-{r}</h2><p>text</body></html>\n"
        );
        let script = format!(
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\nX-Secret: SECRET-{r}\\r\\n\\r\\nSECRET-{r}\\n'\n"
        );
        for name in [
            "R/secret.txt",
            "R/packed.txt",
            "R/in/index.html",
            "R/behind/file.txt",
            "R/last/file.txt",
            "x-R.txt",
            "x-R.html",
            "fx-R/index.html",
        ] {
            launch = launch.file(&name.replace('R', r), &secret);
        }
        let zipped = crate::matrix::things::gzip(secret.as_bytes());
        // What is packed shows its marker in the name that gzip keeps.
        launch = launch.file(&format!("{r}/packed.txt.gz"), zipped);
        for name in ["R/run.cgi", "R/ix/index.cgi", "x-R.cgi", "ix-R/index.cgi"] {
            launch = launch.file(&name.replace('R', r), &script);
            let path = launch.site().join(name.replace('R', r));
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is there");
        }
        for name in ["R/names/x-R.html", "R/dav/x-R.html", "all-R/x-R.html", "all-R/folder/x-R.html", "dav-R/x-R.html"]
        {
            launch = launch.file(&name.replace('R', r), NEEDLE);
        }
        launch = launch.file(&format!("all-{r}/public.html"), NEEDLE);
        launch = launch.file(&format!("{r}/page.html"), &page);
        launch = launch.file(&format!("including-{r}.html"), format!("<!--#include virtual=\"/x-{r}.html\" -->\n"));
        link(&launch.site(), r);
        redirects += &format!("/redirected-{r}/* /{r}/:splat 200\n/wrong-{r}/* /x-{r}.html 404\n");
    }
    launch.file("_redirects", redirects)
}

/// A link to a file behind the same rule.
fn link(site: &Path, r: &str) {
    let link = |to: &str, name: String| std::os::unix::fs::symlink(to, site.join(name)).expect("it is not there yet");
    link("secret.txt", format!("{r}/link.txt"));
    link(&format!("../{r}/dav"), format!("dav-{r}/link"));
}

/// `content` in a form of gzip that can be read as it is: stored, not compressed.
pub(super) fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("memory takes all")
}
