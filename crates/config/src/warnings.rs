//! Warnings about valid settings that will not do what was probably meant: given by checks and when a server starts.
//!
//! Owns: these sentences. Nothing here keeps a server from starting, as files come and go while it serves.

use lamna_policy::size::format_size;
use lamna_sys::denied::denied;

use super::access::{AccessRule, Allowed};
use super::error_pages::{LOOKED_UP, PAGE_BYTES_MAX, file_of};
use super::exposed;
use super::gateway::GatewaySettings;
use super::listen;
use super::own_files;
use super::route::condition::Condition;
use super::route::headers::Statuses;
use super::route::matcher::Matcher;
use super::route::pattern::Pattern;
use super::route::request_fields;
use super::route::sent::Sent;
use super::route::template::Variable;
use super::route::{self, RouteSettings, Switch};
use super::service::{ServiceDefinition, What};
use super::settings::{Settings, SiteSettings};
use super::site::SiteTls;

/// One line each.
pub fn warnings(settings: &Settings) -> Vec<String> {
    let of_site = |(index, site): (usize, &SiteSettings)| {
        let name = match (settings.sites.len(), site.hosts.first()) {
            (1, _) => "the site".to_owned(),
            (_, Some(host)) => format!("site {} ({host})", index + 1),
            (_, None) => format!("site {}", index + 1),
        };
        let skipped = site.skipped_lines.iter().map(|skipped| {
            let line = skipped.line.map(|line| format!(", line {line}")).unwrap_or_default();
            format!("`{}`{line}, of {name} is not done: {}", skipped.file, skipped.why)
        });
        let mut said = [unreadable(&name, site), unsent_pages(&name, site)].concat();
        said.extend(skipped);
        said.extend(unused_lines(&name, site));
        said.extend(listen::warnings::of_site(&name, site, settings));
        said.extend(plain_passwords(&name, site, settings));
        said.extend(weak_hashes(&name, site));
        said.extend(runs_uploads(&name, site));
        said.extend(unverified_fields(&name, site));
        said.extend(mounted_beside_methods(&name, site));
        let own = own_files::of(settings, site);
        said.extend(exposed::warning(&name, site, &own));
        said.extend(own_files::warning(&name, &own));
        said.extend(site.gateways().filter_map(|gateway| unverified(&name, gateway)));
        said
    };
    let of_sites = settings.sites.iter().enumerate().flat_map(of_site);
    of_sites
        .chain(no_gateways(settings))
        .chain(processes(settings))
        .chain(listen::warnings::of_server(settings))
        .collect()
}

/// More processes to begin with than there may be.
fn processes(settings: &Settings) -> Option<String> {
    let (least, most) = (settings.processes, settings.processes_max);
    (least > most && least != Settings::default().processes).then(|| {
        format!(
            "`processes` ({least}) is more than `processes_max` ({most}): there are {least} processes, and never more"
        )
    })
}

/// Gateways that are to be suspended, and that no route has.
fn no_gateways(settings: &Settings) -> Vec<String> {
    let names: Vec<String> = settings.sites.iter().flat_map(SiteSettings::applications).map(|(name, _)| name).collect();
    let gateways = settings.services.iter().filter(|service| service.what == What::Gateway);
    let warning = |service: &ServiceDefinition| {
        let known =
            if names.is_empty() { "there is none".to_owned() } else { format!("there are {}", names.join(", ")) };
        format!("no gateway is called `{}`: {known}", service.name.escape_debug())
    };
    gateways.filter(|service| !names.contains(&service.name)).map(warning).collect()
}

/// Lines of `_redirects` that never count, because a route of the configuration says where answers come from.
fn unused_lines(name: &str, site: &SiteSettings) -> Vec<String> {
    let of = |(line, title): (usize, String)| {
        format!(
            "`_redirects`, line {line}, of {name} never counts: the route {title} says first where answers come from"
        )
    };
    route::unused_lines(&site.routes).into_iter().map(of).collect()
}

/// Routes for some methods, where WebDAV reads and changes the same files by others.
fn mounted_beside_methods(name: &str, site: &SiteSettings) -> Vec<String> {
    let own = ["PROPFIND", "PROPPATCH", "COPY", "MOVE", "LOCK", "UNLOCK"];
    let mounts = site.webdav || site.routes.iter().any(|route| route.webdav == Some(true));
    let is_for_some = |condition: &Condition| match condition {
        Condition::Method(methods) => !own.iter().all(|one| methods.iter().any(|method| method == one)),
        _ => false,
    };
    let of = |route: &RouteSettings| {
        route.conditions.iter().any(is_for_some).then(|| {
            let title = route.title();
            format!(
                "the route {title} of {name} is for some methods, and `webdav` reads and changes files by others, for which \
                 it does not count: name {} as well, or set `webdav = false` for these paths",
                own.join(", ")
            )
        })
    };
    site.routes.iter().filter(|_| mounts).filter_map(of).collect()
}

/// Fields of requests that say what is verified of a client, on a site that verifies nothing of the kind.
fn unverified_fields(name: &str, site: &SiteSettings) -> Vec<String> {
    let asks_for_certificates = matches!(&site.tls, Some(SiteTls::Files(files)) if files.client_ca.is_some());
    let mut accesses = [&site.access].into_iter().chain(site.routes.iter().map(|route| &route.access));
    let verifies = |rule: &AccessRule| rule.asks_for_credentials() || rule.service.is_some();
    let has_users = accesses
        .any(|rules| rules.0.iter().flatten().any(|whom| matches!(whom, Allowed::Only(rule) if verifies(rule))));
    let of = |route: &RouteSettings| {
        let variables = request_fields::variables(&route.request_headers);
        let warning = |variable: &str, lack: &str| {
            format!(
                "`request_headers` of the route {} of {name} has {variable}, and {lack}: no such field is sent",
                route.title()
            )
        };
        let subject = variables.contains(&Variable::CertificateSubject) && !asks_for_certificates;
        let user = variables.contains(&Variable::User) && !has_users;
        let subject = subject.then(|| warning("$certificate_subject", "the site has no `client_ca`"));
        [subject, user.then(|| warning("$user", "no `access` asks for one"))].into_iter().flatten().collect::<Vec<_>>()
    };
    site.routes.iter().flat_map(of).collect()
}

/// Passwords and tokens that anybody on the way may read.
fn plain_passwords(name: &str, site: &SiteSettings, settings: &Settings) -> Option<String> {
    let mut accesses = [&site.access].into_iter().chain(site.routes.iter().map(|route| &route.access));
    let asks = accesses.any(|rules| {
        rules.0.iter().flatten().any(|whom| matches!(whom, Allowed::Only(rule) if rule.asks_for_credentials()))
    });
    // A proxy that is trusted speaks TLS in its place.
    let is_plain = asks && site.tls.is_none() && settings.proxies.is_empty();
    let open = settings.listen.iter().find(|one| one.at.is_open()).filter(|_| is_plain)?;
    Some(format!(
        "{name} asks for passwords or tokens, and {} does not speak TLS: whoever is on the way reads them (docs/tls.md says how to \
         have it spoken)",
        open.at
    ))
}

/// Users whose passwords are found soon once somebody has their hashes.
fn weak_hashes(name: &str, site: &SiteSettings) -> Option<String> {
    let weak = site.accounts.users.iter().filter_map(|(user, hash)| Some((user, hash.weakness()?)));
    let (users, why): (Vec<&String>, Vec<String>) = weak.unzip();
    let (first, why) = (users.first()?, why.first()?);
    let of = match users.len() {
        1 => format!("the hash of `{first}`"),
        more => format!("the hashes of {more} users, `{first}` among them,"),
    };
    let are = if users.len() == 1 { "is" } else { "are" };
    Some(format!(
        "{of} in {name} {are} weaker than those of `lamna hash-password`: {why}. The passwords are taken; new hashes are better"
    ))
}

/// Routes whose files are run as programs, and which clients may put files into: paths at which both are so are looked
/// for.
fn runs_uploads(name: &str, site: &SiteSettings) -> Vec<String> {
    let Ok(matcher) = Matcher::new(&site.routes) else { return Vec::new() };
    let scripts = site.gateways().filter_map(|gateway| gateway.scripts.as_ref());
    let ends: Vec<String> = scripts
        .flat_map(|scripts| match scripts.extensions.is_empty() {
            true => vec!["x".to_owned()],
            false => scripts.extensions.iter().map(|end| format!("x.{end}")).collect(),
        })
        .collect();
    let folder = |pattern: &Pattern| {
        let prefix = pattern.prefix();
        prefix[..prefix.rfind('/').map_or(0, |at| at + 1)].to_owned()
    };
    let of_routes = site.routes.iter().flat_map(|route| &route.paths);
    let folders = of_routes.map(folder).filter(|folder| folder.starts_with('/')).chain(["/".to_owned()]);
    let mut said: Vec<String> = Vec::new();
    for folder in folders {
        for path in ends.iter().map(|end| format!("{folder}{end}")) {
            let ids = matcher.by_path(path.as_bytes());
            let rules = route::merge(ids.iter().map(|id| (usize::from(*id), matcher.route(*id))));
            let is_run = rules.gateway.as_ref().is_some_and(|gateway| {
                // An application of FastCGI without extensions is asked for what it likes, and no file is stored.
                let scripts =
                    gateway.scripts.as_ref().filter(|all| gateway.cgi.is_some() || !all.extensions.is_empty());
                scripts.is_some_and(|scripts| scripts.run(path.as_bytes()))
            });
            let is_led_away = rules.redirect.is_some() || rules.rewrite.is_some();
            if !is_run || is_led_away || !rules.changes_over(site.changes()).upload {
                continue;
            }
            let runs = |id: &&u16| matches!(matcher.route(**id).gateway, Switch::Set(_));
            let title = ids.iter().find(runs).map_or_else(|| path.clone(), |id| matcher.route(*id).title());
            let warning = format!(
                "{name} lets clients upload files where an application runs them (the route {title}): who may upload can run any program; \
                 say `upload = false` for that route, or run no files there"
            );
            if !said.contains(&warning) {
                said.push(warning);
            }
        }
    }
    said
}

/// Applications that are asked by `https` without verification of their certificates.
fn unverified(name: &str, gateway: &GatewaySettings) -> Option<String> {
    let place = gateway.upstreams.iter().find(|upstream| upstream.address.is_secure && !gateway.tls.verify)?;
    Some(format!(
        "{name} does not look at the certificate of {} (`verify = false`): whoever is on the way can read and answer its requests; \
         `ca` names the certificates that it can be known by",
        place.address
    ))
}

/// Roots that are to be listed and that this user may not read. Those that it may not search are refused.
fn unreadable(name: &str, site: &SiteSettings) -> Vec<String> {
    let roots = site.aliases.iter().map(|alias| &alias.root).chain([&site.root]).filter(|_| site.browse);
    roots.filter_map(|root| denied(root)).map(|denied| format!("{name} cannot be listed: {denied}")).collect()
}

/// Pages for errors, and files of fixed answers, that are not sent.
fn unsent_pages(name: &str, site: &SiteSettings) -> Vec<String> {
    let sent = Sent::new(site).ok();
    let why_not = |path: &str, is_held: bool| {
        let file = file_of(site, path);
        let shown = file.display().to_string();
        let shown = shown.escape_debug();
        match file.metadata() {
            _ if !site.has_root() => Some("the site has no `root` that it could be beneath".to_owned()),
            Ok(found) if !found.is_file() => Some(format!("`{shown}` is not a file")),
            Err(_) => Some(format!("`{shown}` is not a file")),
            Ok(found) if is_held && found.len() > PAGE_BYTES_MAX => {
                Some(format!("`{shown}` has more than {}", format_size(PAGE_BYTES_MAX)))
            }
            Ok(_) if is_held && sent.as_ref().is_some_and(|sent| !sent.is_open(path.as_bytes())) => Some(format!(
                "not every client may read it: a route for it with access = \"anyone\" lets `{}` be sent",
                path.escape_debug()
            )),
            Ok(_) => None,
        }
    };
    let of_routes = site.routes.iter().flat_map(|route| route.error_pages.iter());
    let pages = site.error_pages.iter().chain(of_routes).filter_map(|(statuses, page)| {
        // What is looked up is judged for each client.
        let is_held = !LOOKED_UP.iter().any(|status| statuses == Statuses::One(*status));
        let why = why_not(page, is_held)?;
        let (page, statuses) = (page.escape_debug(), statuses.text());
        Some(format!("{name} has `{page}` as its page for {statuses}, and {why}: Lamna's own page is sent"))
    });
    let answers = site.routes.iter().filter_map(|route| {
        let Switch::Set(respond) = &route.respond else { return None };
        let file = respond.file()?;
        let (why, title, file) = (why_not(file, true)?, route.title(), file.escape_debug());
        let status = if respond.status >= 400 { respond.status } else { 404 };
        Some(format!("{name} answers `{title}` with `{file}`, and {why}: the page for {status} is sent"))
    });
    let maintenance = site.maintenance.iter().filter_map(|maintenance| {
        let page = maintenance.page.as_deref()?;
        let (why, page) = (why_not(page, true)?, page.escape_debug());
        Some(format!("{name} has `{page}` as its page of maintenance, and {why}: the page for 503 is sent"))
    });
    let mut said: Vec<String> = pages.chain(answers).chain(maintenance).collect();
    said.sort();
    said.dedup();
    said
}

#[cfg(test)]
mod tests {
    use super::super::settings::Alias;
    use super::*;

    fn warnings_of(pages: &[(u16, &str)]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("404.html"), "gone").unwrap();
        std::fs::create_dir(directory.path().join("sub")).unwrap();
        let mut site = SiteSettings::new(directory.path().to_owned());
        site.error_pages = pages.iter().map(|(status, page)| (*status, (*page).to_owned())).collect();
        warnings(&Settings { sites: vec![site], ..Settings::default() })
    }

    #[test]
    fn an_error_page_that_is_no_file_is_warned_of_and_one_that_is_is_not() {
        assert!(warnings_of(&[(404, "/404.html")]).is_empty());
        for page in ["/nothing.html", "/sub"] {
            let said = warnings_of(&[(404, "/404.html"), (403, page)]);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains(page) && said[0].contains("403") && said[0].contains("is not a file"), "{said:?}");
        }
    }

    #[test]
    fn a_route_for_some_methods_is_warned_of_where_others_read_the_same_files() {
        let of = |keys: &str| {
            let text = format!(
                "[[site]]\nroot = \"/\"\n{keys}\n[[site.route]]\nmatch = {{ path = \"/a/*\", method = \"GET\" }}\n\
                 access = \"deny\"\n"
            );
            let settings = crate::parse(&text, "/a.toml".as_ref()).unwrap();
            warnings(&settings).into_iter().filter(|said| said.contains("is for some methods")).count()
        };
        assert_eq!((of(""), of("webdav = true")), (0, 1));
    }

    #[test]
    fn a_page_that_is_held_and_that_not_every_client_may_read_is_warned_of() {
        let directory = tempfile::tempdir().unwrap();
        let of = |routes: &str| {
            std::fs::write(directory.path().join("e.html"), "sorry").unwrap();
            let text = format!(
                "[[site]]\nroot = {:?}\nerror_pages = {{ \"4xx\" = \"/e.html\", \"404\" = \"/e.html\" }}\n{routes}",
                directory.path()
            );
            warnings(&crate::parse(&text, &directory.path().join("a.toml")).unwrap())
        };
        assert_eq!(of(""), Vec::<String>::new());
        let found = of("access = \"deny\"\n");
        assert!(found.len() == 1 && found[0].contains("page for 4xx, and not every client may read it"), "{found:?}");
        let open = "access = \"deny\"\n[[site.route]]\nmatch = \"/e.html\"\naccess = \"anyone\"\n";
        assert_eq!(of(open), Vec::<String>::new());
    }

    #[test]
    fn a_page_that_is_held_and_too_large_and_an_answer_without_its_file_are_warned_of() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("large"), vec![b'x'; 1 + PAGE_BYTES_MAX as usize]).unwrap();
        let of = |keys: &str| {
            let text = format!("[[site]]\nroot = {:?}\n{keys}", directory.path());
            warnings(&crate::parse(&text, &directory.path().join("a.toml")).unwrap())
        };
        assert_eq!(of("error_pages = { \"404\" = \"/large\" }"), Vec::<String>::new());
        let found = of("error_pages = { \"502\" = \"/large\" }");
        assert!(found.len() == 1 && found[0].contains("has more than 64KiB"), "{found:?}");
        let found = of("route = [{ match = \"/x\", respond = { status = 410, file = \"/absent\" } }]");
        assert!(found.len() == 1 && found[0].contains("answers `/x` with `/absent`"), "{found:?}");
    }

    #[test]
    fn a_site_that_nobody_reaches_is_warned_of() {
        let of = |listen: &str| {
            let root = tempfile::tempdir().unwrap();
            let text = format!(
                "listen = {listen}\n[[site]]\nhosts = [\"a.test\"]\nroot = {0:?}\n[[site]]\nhosts = [\"b.test\"]\nroot = {0:?}\ntls = \"local\"\n",
                root.path()
            );
            warnings(&crate::parse(&text, &root.path().join("a.toml")).unwrap())
        };
        let found = of("[\"127.0.0.1:8443\"]");
        assert!(found.len() == 1 && found[0].contains("site 1 (a.test) has no certificate"), "{found:?}");
        for listen in ["[\"127.0.0.1:8443\", \"127.0.0.1:80\"]", "[\"127.0.0.1:8443\", \"unix:../x\"]"] {
            assert_eq!(of(listen), Vec::<String>::new(), "{listen}");
        }
    }

    #[test]
    fn a_line_of_redirects_that_never_counts_is_warned_of() {
        let of = |route: &str| {
            let root = tempfile::tempdir().unwrap();
            std::fs::write(
                root.path().join("_redirects"),
                "/old /new 301\n/forced /new 301!\n/app/* /index.html 200\n",
            )
            .unwrap();
            let text = format!("[[site]]\nroot = {:?}\nrule_files = true\n{route}", root.path());
            warnings(&crate::parse(&text, &root.path().join("a.toml")).unwrap())
        };
        assert_eq!(of("[[site.route]]\nmatch = \"*\"\nheaders = { X-A = \"1\" }\n"), Vec::<String>::new());
        // A redirect where there is nothing goes with what is tried.
        let found = of("[[site.route]]\nmatch = \"*\"\ntry = [\"$path\"]\n");
        assert!(found.len() == 2 && found[0].contains("line 2") && found[1].contains("line 3"), "{found:?}");
    }

    #[test]
    fn what_clients_upload_is_not_to_be_run() {
        let of = |lines: &str| {
            let root = tempfile::tempdir().unwrap();
            let text = format!("[[site]]\nroot = {:?}\n{lines}", root.path());
            warnings(&crate::parse(&text, &root.path().join("a.toml")).unwrap())
        };
        let php = "[[site.route]]\nmatch = \"*.php\"\nfastcgi = \"127.0.0.1:9000\"\n";
        let found = of(&format!("upload = true\n{php}"));
        assert!(found.len() == 1 && found[0].contains("*.php") && found[0].contains("upload"), "{found:?}");
        let cgi = "[[site.route]]\nmatch = \"/cgi-bin/*\"\ncgi = true\nupload = true\n";
        assert_eq!(of(cgi).len(), 1);
        // What is stored beneath it is run where its name ends so.
        let within = "[[site.route]]\nmatch = \"/in/*\"\nupload = true\n";
        assert_eq!(of(&format!("{php}{within}")).len(), 1);
        // Nothing that is stored is run where files are not run, or are looked for elsewhere.
        let off = "[[site.route]]\nmatch = \"/in/*\"\nupload = true\nfastcgi = false\n";
        assert_eq!(of(&format!("{php}{off}")), [""; 0]);
        let whole = "upload = true\n[[site.route]]\nmatch = \"/app/*\"\nfastcgi = { to = \"127.0.0.1:9000\", extensions = [] }\n";
        assert_eq!(of(whole), [""; 0]);
        let apart =
            "[[site.route]]\nmatch = \"/cgi-bin/*\"\ncgi = true\n[[site.route]]\nmatch = \"/in/*\"\nupload = true\n";
        assert_eq!(of(apart), [""; 0]);
        assert!(of(&format!("upload = true\n{php}upload = false\n")).is_empty());
    }

    #[test]
    fn settings_that_do_not_fit_each_other_are_warned_of() {
        let of = |lines: &str| {
            let root = tempfile::tempdir().unwrap();
            let text = format!("{lines}\n[[site]]\nroot = {:?}\n", root.path());
            warnings(&crate::parse(&text, &root.path().join("a.toml")).unwrap())
        };
        let found = of("processes = 100\nprocesses_max = 10");
        assert!(
            found.len() == 1 && found[0].contains("`processes` (100) is more than `processes_max` (10)"),
            "{found:?}"
        );
        for fits in ["processes = 10\nprocesses_max = 10", "processes_max = 10"] {
            assert_eq!(of(fits), [""; 0], "{fits}");
        }
        let proxies = "trusted_proxies = [\"127.0.0.1\"]\nproxy_protocol = [\"127.0.0.1:9999\"]";
        let found = of(&format!("{proxies}\nlisten = [\"127.0.0.1:9998\"]"));
        assert!(found.len() == 1 && found[0].contains("`proxy_protocol` names 127.0.0.1:9999"), "{found:?}");
        assert_eq!(of(&format!("{proxies}\nlisten = [\"127.0.0.1:9998\", \"127.0.0.1:9999\"]")), [""; 0]);
        let any_port = proxies.replace("9999", "0");
        assert_eq!(of(&format!("{any_port}\nlisten = [\"127.0.0.1:9998\"]")), [""; 0]);
        assert_eq!(of(proxies), [""; 0]);
    }

    #[test]
    fn a_gateway_that_is_to_be_suspended_is_one_of_a_route() {
        let of = |name: &str| {
            let root = tempfile::tempdir().unwrap();
            let route = "[[site.route]]\nmatch = \"/a/*\"\nproxy = \"http://127.0.0.1:9\"\n";
            let service = format!("[[service]]\nname = {name:?}\ngateway = true\nsuspended = true\n");
            let text = format!("{service}[[site]]\nroot = {:?}\nhosts = [\"a.test\"]\n{route}", root.path());
            warnings(&crate::parse(&text, &root.path().join("a.toml")).unwrap())
        };
        assert!(of("a.test /a/*").is_empty());
        let found = of("/a/*");
        assert!(found.len() == 1 && found[0].contains("there are a.test /a/*"), "{found:?}");
    }

    #[test]
    fn a_page_that_is_not_there_is_warned_of_wherever_its_prefix_leads() {
        let directory = tempfile::tempdir().unwrap();
        let mut site = SiteSettings::new(directory.path().to_owned());
        for name in ["pages", "other"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        std::fs::write(directory.path().join("other/404.html"), "").unwrap();
        std::fs::write(directory.path().join("pages/500.html"), "").unwrap();
        site.error_pages = [(404, "/pages/404.html".into()), (500, "/pages/500.html".into())].into();
        let warning = |site: &SiteSettings| warnings(&Settings { sites: vec![site.clone()], ..Settings::default() });
        let found = warning(&site);
        assert!(found.len() == 1 && found[0].contains("as its page for 404"), "{found:?}");
        site.aliases = vec![Alias { prefix: "/pages/".into(), root: directory.path().join("other") }];
        let found = warning(&site);
        assert!(found.len() == 1 && found[0].contains("as its page for 500"), "{found:?}");
    }
}
