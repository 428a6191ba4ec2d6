//! Directives of a section of Apache that are neither about who is let in nor rules of rewriting.
//!
//! Owns: what each is here ([`plain`]), and which need nothing. Guarantees: where a directive that may keep clients out
//! is not known, its paths are answered with 404.

use lamna_config::render::quoted;

use super::routes::{Routes, Strength};
use super::section::{Around, Part};
use super::syntax::Directive;
use super::{access, headers, proxy, redirect};
use crate::haproxy::fields::{self, Change};
use crate::matching::{Kind, PathTest, Test};
use crate::respond::is_error;
use crate::{Draft, Site, is_program};

/// Paths that are tried in a folder alone.
pub(super) fn in_folder(part: &Part<'_>, tried: Vec<String>, routes: &mut Routes, draft: &mut Draft) {
    if tried.is_empty() {
        return;
    }
    let has_program = tried.iter().any(|path| path.contains(".php"));
    match &routes.fastcgi {
        None if has_program => {
            draft.lose(
                part.line,
                format!("`{}`: what is not there is a script's, and no application that runs it is named", part.text),
            );
        }
        fastcgi => {
            let paths = [vec!["$path".to_owned()], tried].concat();
            let mut keys = vec![("try", crate::list(&paths))];
            keys.extend(fastcgi.clone().map(|value| ("fastcgi", value)));
            let line = Directive { line: part.line, name: String::new(), words: vec![part.text.clone()], inner: None };
            routes.emit(Strength::Whole, &line, &part.tests, keys, false, draft);
        }
    }
}

/// All other directives of a section.
#[allow(clippy::too_many_arguments)]
pub(super) fn plain(
    part: &Part<'_>,
    around: &Around<'_>,
    balancers: &proxy::Balancers,
    said: proxy::Said,
    has_reverse: bool,
    site: &mut Site,
    routes: &mut Routes,
    draft: &mut Draft,
) {
    let mut changes: Vec<Change> = Vec::new();
    let mut pages: Vec<(String, String)> = Vec::new();
    let is_active =
        part.directives.iter().any(|one| one.name == "expiresactive" && one.argument(0).eq_ignore_ascii_case("on"));
    let mut keys: Vec<(&'static str, String)> = Vec::new();
    for directive in &part.directives {
        let text = directive.text();
        match &*directive.name {
            "header" | "requestheader" => changes.extend(headers::change(directive, draft)),
            "redirect" | "redirectmatch" | "redirectpermanent" | "redirecttemp" => {
                let tests = if part.folder.is_some() { &[][..] } else { &part.tests };
                redirect::carry(directive, tests, part.is_conditional, routes, draft);
            }
            "proxypass" | "proxypassmatch"
                if super::proxy::runner(directive.argument(1)).is_some() && directive.argument(0).contains("php") => {}
            "proxypass" | "proxypassmatch" => {
                let prefix = match &part.tests[..] {
                    [(Test::Path(tests), false)] => tests.first().map_or("/", |test| &*test.text),
                    _ => "/",
                };
                let section = part.is_location.then_some((&part.tests[..], prefix));
                proxy::carry(directive, section, balancers, said, has_reverse, routes, draft);
            }
            "errordocument" => {
                let (status, page) = (directive.argument(0), directive.argument(1));
                let why = match () {
                    () if !is_error(status) => "there are pages for 400 to 599",
                    () if !page.starts_with('/') || directive.arguments().len() > 2 => "a page is a path of the site",
                    () if is_program(page) || page.contains(['?', '#']) => {
                        "a page is a file that is sent, and this one is run"
                    }
                    () => {
                        pages.retain(|(other, _)| other != status);
                        pages.push((status.to_owned(), page.to_owned()));
                        continue;
                    }
                };
                draft.lose(directive.line, format!("`{text}`: {why}"));
            }
            "expiresdefault" if is_active => {
                match headers::seconds(directive.arguments().join(" ").trim_matches('"')) {
                    Some(seconds) => {
                        keys.push((
                            "headers",
                            format!("[{{ default = {{ Cache-Control = \"max-age={seconds}\" }} }}]"),
                        ));
                    }
                    None => draft.lose(directive.line, format!("`{text}`: an age is counted from the request")),
                }
            }
            "expiresbytype" if is_active => {
                let seconds = headers::seconds(directive.arguments()[1..].join(" ").trim_matches('"'));
                match (headers::endings(directive.argument(0)), seconds) {
                    (Some(endings), Some(seconds)) => {
                        let tests: Vec<PathTest> =
                            endings.iter().map(|end| PathTest::new(Kind::Suffix, &format!(".{end}"), false)).collect();
                        let all = [part.tests.clone(), vec![(Test::Path(tests), false)]].concat();
                        let value = format!("[{{ set = {{ Cache-Control = \"max-age={seconds}\" }} }}]");
                        match crate::matching::said(&all) {
                            Ok(Some(matches)) => {
                                routes.push(Strength::Section, directive.line, matches, vec![("headers", value)])
                            }
                            _ => draft.lose(directive.line, format!("`{text}`: its paths cannot be said")),
                        }
                    }
                    _ => draft.lose(
                        directive.line,
                        format!("`{text}`: files are told apart by their endings, and ages counted from the request"),
                    ),
                }
            }
            "addtype" if directive.text().contains("httpd-php") => {}
            "addtype" => {
                let mut tests = Vec::new();
                for end in &directive.arguments()[1.min(directive.arguments().len())..] {
                    tests.push(PathTest::new(Kind::Suffix, &format!(".{}", end.trim_start_matches('.')), false));
                }
                let all = [part.tests.clone(), vec![(Test::Path(tests), false)]].concat();
                let kind = directive.argument(0);
                let is_kind = kind.contains('/') && kind.bytes().all(|byte| byte.is_ascii_graphic());
                match crate::matching::said(&all) {
                    Ok(Some(matches)) if is_kind => {
                        routes.push(
                            Strength::Section,
                            directive.line,
                            matches,
                            vec![("headers", format!("{{ Content-Type = {} }}", quoted(kind)))],
                        );
                    }
                    _ => draft.lose(directive.line, format!("`{text}`: it names no type or no endings")),
                }
            }
            "options" => {
                let lists = directive
                    .arguments()
                    .iter()
                    .any(|one| matches!(&*one.to_ascii_lowercase(), "indexes" | "+indexes" | "all"));
                let stops = directive
                    .arguments()
                    .iter()
                    .any(|one| one.eq_ignore_ascii_case("-indexes") || one.eq_ignore_ascii_case("none"));
                if lists || stops {
                    site.keys.retain(|(key, _)| *key != "browse" || !part.is_whole());
                }
                match lists {
                    true if part.is_whole() => site.keys.push(("browse", "true".into())),
                    true => draft
                        .lose(directive.line, format!("`{text}` of `{}`: listings are for a whole site", part.text)),
                    false if stops && !part.is_whole() && site.keys.iter().any(|(key, _)| *key == "browse") => {
                        site.keys.retain(|(key, _)| *key != "browse");
                        draft.lose(
                            directive.line,
                            format!("`{text}` of `{}`: listings are for a whole site: there are none", part.text),
                        );
                    }
                    false => draft.need_not(
                        directive.line,
                        format!(
                            "`{text}`: folders are listed where that is said, and links lead where access is judged"
                        ),
                    ),
                }
                if directive.arguments().iter().any(|one| one.to_ascii_lowercase().contains("includes")) {
                    draft.lose(
                        directive.line,
                        format!("`{text}`: pages are not made of others by SSI: they are answered with 404"),
                    );
                    routes.refuse(directive.line, r"(?i)\.shtml?(?:/|\n?$)");
                }
            }
            "directoryindex" if !part.is_whole() => {
                let names: Vec<&String> =
                    directive.arguments().iter().filter(|name| !name.contains('/') && !is_program(name)).collect();
                keys.push(("index", crate::list(&names)));
            }
            "customlog" | "transferlog" if part.folder.is_none() && part.is_whole() => {
                let target = directive.argument(0);
                let is_file = !target.starts_with('|') && !target.contains("${") && !target.is_empty();
                match is_file && !site.keys.iter().any(|(key, _)| *key == "log") {
                    true => {
                        let target = if target.starts_with("/dev/std") || target.starts_with("/proc/self") {
                            "-"
                        } else {
                            target
                        };
                        site.keys.push(("log", quoted(target)));
                    }
                    false => draft
                        .lose(directive.line, format!("`{text}`: a site has one log, in a file or on standard output")),
                }
            }
            "sethandler" | "addhandler"
                if super::proxy::runner(directive.argument(0)).is_some()
                    || text.contains("php")
                    || directive.argument(0) == "cgi-script" => {}
            "sethandler" if matches!(&*directive.argument(0).to_ascii_lowercase(), "none" | "default-handler") => {
                draft.need_not(directive.line, format!("`{text}`: files are sent where no application is named"));
            }
            "sethandler" => {
                let why = "what it answers is another program's";
                draft.lose(directive.line, format!("`{text}`: {why}; {}", crate::DENIED_WORDS));
                routes.emit(Strength::Rewrite, directive, &part.tests, vec![("respond", "404".into())], true, draft);
            }
            name => other(name, directive, part, around, routes, draft),
        }
    }
    if !pages.is_empty() {
        let pages: Vec<String> =
            pages.iter().map(|(status, page)| format!("{} = {}", quoted(status), quoted(page))).collect();
        let value = format!("{{ {} }}", pages.join(", "));
        match part.is_whole() {
            true => {
                site.keys.retain(|(key, _)| *key != "error_pages");
                site.keys.push(("error_pages", value));
            }
            false => keys.push(("error_pages", value)),
        }
    }
    let refs: Vec<&Change> = changes.iter().collect();
    let of_fields = fields::keys(&refs, &[]);
    if of_fields.iter().any(|(key, _)| *key == "headers") {
        // An age beside it counts for files that say none.
        let own: Vec<(&'static str, String)> = keys.iter().filter(|(key, _)| *key == "headers").cloned().collect();
        keys.retain(|(key, _)| *key != "headers");
        for (key, value) in own {
            push(part, vec![(key, value)], routes, draft);
        }
    }
    keys.extend(of_fields);
    if !keys.is_empty() {
        push(part, keys, routes, draft);
    }
}

fn push(part: &Part<'_>, keys: Vec<(&'static str, String)>, routes: &mut Routes, draft: &mut Draft) {
    match crate::matching::said(&part.tests) {
        Ok(Some(matches)) => routes.push(Strength::Section, part.line, matches, keys),
        Ok(None) => {}
        Err(why) => draft.lose(part.line, format!("`{}`: {}", part.text, why.why)),
    }
}

/// Whether a directive that is not known may keep clients out.
pub(super) fn may_refuse(name: &str) -> bool {
    let is_known = matches!(name, "authtype" | "authname" | "authuserfile" | "authgroupfile" | "authbasicprovider");
    !is_known
        && [
            "auth",
            "sec",
            "require",
            "limit",
            "shib",
            "oidc",
            "qs_",
            "evasive",
            "geoip",
            "maxmind",
            "deny",
            "sslrequire",
        ]
        .iter()
        .any(|start| name.starts_with(start))
        && !matches!(
            name,
            "limitrequestbody"
                | "limitrequestfields"
                | "limitrequestfieldsize"
                | "limitrequestline"
                | "limitinternalrecursion"
                | "limitxmlrequestbody"
        )
}

/// Directives that need nothing, and those that are not carried over.
fn other(name: &str, directive: &Directive, part: &Part<'_>, _: &Around<'_>, routes: &mut Routes, draft: &mut Draft) {
    let text = directive.text();
    let why = match name {
        "documentroot"
        | "servername"
        | "serveralias"
        | "listen"
        | "sslengine"
        | "sslcertificatefile"
        | "sslcertificatekeyfile"
        | "alias"
        | "scriptalias"
        | "aliasmatch"
        | "scriptaliasmatch"
        | "directoryindex"
        | "rewriteengine"
        | "rewriterule"
        | "rewritecond"
        | "rewritebase"
        | "proxypreservehost"
        | "proxytimeout"
        | "authtype"
        | "authname"
        | "authuserfile"
        | "authgroupfile"
        | "authbasicprovider"
        | "errorlog"
        | "sslverifyclient"
        | "sslcacertificatefile"
        | "expiresactive"
        | "define"
        | "proxypassreverse" => return,
        name if access::is_about(directive) || name == "virtualhost" => return,
        "serveradmin"
        | "serversignature"
        | "servertokens"
        | "usecanonicalname"
        | "hostnamelookups"
        | "fileetag"
        | "directoryslash"
        | "traceenable"
        | "serverroot"
        | "loadmodule"
        | "user"
        | "group"
        | "pidfile"
        | "mutex"
        | "timeout"
        | "keepalive"
        | "maxkeepaliverequests"
        | "keepalivetimeout"
        | "startservers"
        | "minspareservers"
        | "maxspareservers"
        | "minsparethreads"
        | "maxsparethreads"
        | "threadlimit"
        | "threadsperchild"
        | "maxrequestworkers"
        | "maxconnectionsperchild"
        | "maxclients"
        | "maxrequestsperchild"
        | "serverlimit"
        | "enablesendfile"
        | "enablemmap"
        | "acceptfilter"
        | "accessfilename"
        | "allowoverride"
        | "allowoverridelist"
        | "namevirtualhost"
        | "sslprotocol"
        | "sslhonorcipherorder"
        | "sslsessioncache"
        | "sslsessioncachetimeout"
        | "sslsessiontickets"
        | "sslrandomseed"
        | "sslpassphrasedialog"
        | "sslcompression"
        | "sslproxyengine"
        | "sslusestapling"
        | "sslstaplingcache"
        | "sslciphersuite"
        | "sslstrictsnivhostcheck"
        | "ssloptions"
        | "protocols"
        | "h2direct"
        | "h2push"
        | "loglevel"
        | "rewriteoptions"
        | "contentdigest"
        | "checkspelling"
        | "multiviewsmatch"
        | "typesconfig"
        | "mimemagicfile"
        | "defaulttype"
        | "coredumpdirectory"
        | "defaultruntimedir"
        | "proxyrequests"
        | "proxyvia"
        | "deflatecompressionlevel"
        | "addoutputfilterbytype"
        | "addlanguage"
        | "languagepriority"
        | "forcelanguagepriority"
        | "indexoptions"
        | "indexignore"
        | "readmename"
        | "headername"
        | "addicon"
        | "addiconbytype"
        | "addiconbyencoding"
        | "defaulticon"
        | "adddescription"
        | "indexorderdefault"
        | "addalt"
        | "addaltbytype"
        | "addaltbyencoding"
        | "proxyaddheaders"
        | "proxyiobuffersize"
        | "acceptpathinfo"
        | "setenvif"
        | "setenvifnocase"
        | "browsermatch"
        | "browsermatchnocase"
        | "passenv"
        | "unsetenv"
        | "cgipassauth"
        | "bufferedlogs"
        | "logformat"
        | "proxybadheader"
        | "regexdefaultoptions"
        | "httpprotocoloptions"
        | "setenv"
        | "addcharset"
        | "adddefaultcharset"
        | "addencoding"
        | "removetype"
        | "removehandler"
        | "fcgidwrapper"
        | "addinputfilter"
        | "allowencodedslashes"
        | "rewritelog"
        | "rewriteloglevel"
        | "graceful"
        | "gracefulshutdowntimeout"
        | "listenbacklog"
        | "receivebuffersize" => "the server does what is right there by itself, or it tells programs something",
        "addoutputfilter" | "setoutputfilter" if text.to_ascii_uppercase().contains("DEFLATE") => "text is compressed",
        _ => {
            if name == "include" || may_refuse(name) {
                let why = "whom it lets in is not known here; what it is for is answered with 404";
                draft.lose(directive.line, format!("`{text}`: {why}"));
                routes.emit(Strength::Rewrite, directive, &part.tests, vec![("respond", "404".into())], true, draft);
                return;
            }
            return draft.lose(directive.line, format!("`{text}`: Lamna has nothing like it"));
        }
    };
    draft.need_not(directive.line, format!("`{text}`: {why}"));
}
