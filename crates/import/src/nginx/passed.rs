//! The beginning of paths that an application is asked for, where nginx does something by itself or says it otherwise.
//!
//! Owns: the directives that are put in the place of a `rewrite` that takes the beginning away, and beside a location
//! that ends with a slash, to which nginx leads whoever leaves the slash out. Guarantees: what cannot be said so is
//! left as it was.

use lamna_config::route::is_plain_path;

use super::pattern::spelled;
use super::syntax::Directive;

/// Directives that pass requests on. Beside them nginx leads to the location with its slash.
const PASSES: [&str; 6] = ["proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"];

/// Puts plain directives in their places.
pub(super) fn expand(directives: &mut Vec<Directive>) {
    for directive in directives.iter_mut().filter(|one| matches!(&*one.name, "http" | "server" | "location")) {
        directive.block.iter_mut().for_each(expand);
    }
    let taken_away: Vec<Directive> = directives.iter().filter_map(|one| without_beginning(one, directives)).collect();
    for location in taken_away {
        let is_it = |one: &Directive| one.name == "location" && beneath(one) == beneath(&location);
        match directives.iter().position(is_it) {
            Some(at) if of_prefix(&directives[at]) == of_prefix(&location) => directives[at] = location,
            Some(at) => {
                // What does not go on with a slash is asked for as it is.
                directives[at].block.iter_mut().for_each(|block| block.retain(|one| one.name != "rewrite"));
                directives.insert(at + 1, location);
            }
            None => {}
        }
    }
    let led: Vec<Directive> = directives.iter().filter_map(|one| to_slash(one, directives)).collect();
    directives.extend(led);
}

/// The path of a location for all that begins so.
fn of_prefix(directive: &Directive) -> Option<&str> {
    match spelled(directive) {
        ("" | "^~", path) if directive.name == "location" && path.starts_with('/') => Some(path),
        _ => None,
    }
}

/// The path without a slash at its end.
fn beneath(directive: &Directive) -> Option<&str> {
    of_prefix(directive).map(|path| path.trim_end_matches('/')).filter(|path| is_plain_path(path))
}

/// The location for what is beneath the path of one whose `rewrite` takes that path away before an application is
/// asked: with `/` behind the address of the application, which does the same.
fn without_beginning(location: &Directive, siblings: &[Directive]) -> Option<Directive> {
    let (path, bare) = (of_prefix(location)?, beneath(location)?);
    let block = location.block.as_deref()?;
    let named = |name: &str| block.iter().filter(|one| one.name == name).collect::<Vec<_>>();
    let ([rewrite], [pass]) = (&named("rewrite")[..], &named("proxy_pass")[..]) else { return None };
    let others = ["if", "location", "set", "return", "try_files"];
    let regex = rewrite.argument(0);
    let rest = regex.strip_prefix('^').unwrap_or(regex).strip_prefix(bare)?;
    let takes_away = match rest.strip_suffix('$').unwrap_or(rest) {
        "/(.*)" => true,
        "/?(.*)" => path.ends_with('/'),
        _ => false,
    };
    let is_last = rewrite.argument(1) == "/$1" && rewrite.argument(2) == "break";
    let authority = pass.argument(0).split_once("://")?.1;
    let is_plain = !authority.contains(['/', '$']) && !block.iter().any(|one| others.contains(&&*one.name));
    let slashed = format!("{bare}/");
    let is_alone = path == slashed || !siblings.iter().any(|one| of_prefix(one) == Some(&*slashed));
    if !(takes_away && is_last && is_plain && is_alone) {
        return None;
    }
    let mut beneath = location.clone();
    *beneath.arguments.last_mut()? = slashed;
    let block = beneath.block.as_mut()?;
    for one in block.iter_mut() {
        match &*one.name {
            "proxy_pass" => one.arguments[0].push('/'),
            // Addresses in answers are as the application has them.
            "rewrite" => *one = Directive::new(one.line, "proxy_redirect", vec!["off".to_owned()], None),
            _ => {}
        }
    }
    Some(beneath)
}

/// The location that leads to this one whoever leaves its slash out, if nginx does so.
fn to_slash(location: &Directive, siblings: &[Directive]) -> Option<Directive> {
    let (path, bare) = (of_prefix(location)?, beneath(location).filter(|path| !path.is_empty())?);
    let block = location.block.as_deref()?;
    let passes = block.iter().any(|one| PASSES.contains(&&*one.name));
    let is_internal = block.iter().any(|one| one.name == "internal");
    let is_there = siblings
        .iter()
        .any(|one| one.name == "location" && matches!(spelled(one), ("=" | "" | "^~", path) if path == bare));
    if !path.ends_with('/') || !passes || is_internal || is_there {
        return None;
    }
    let led = Directive::new(location.line, "return", vec!["301".to_owned(), path.to_owned()], None);
    Some(Directive::new(location.line, "location", vec!["=".to_owned(), bare.to_owned()], Some(vec![led])))
}

#[cfg(test)]
mod tests {
    use crate::asked::Asked;
    use crate::{Files, nginx};

    fn of(locations: &str) -> String {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        nginx(&format!("http {{ server {{ root /srv; {locations} }} }}"), files).unwrap().text
    }

    fn place(text: &str, path: &str) -> String {
        Asked::of(path).place(text, "a.example")
    }

    #[test]
    fn who_leaves_the_slash_of_a_location_out_is_led_to_it() {
        let rest = "location / { proxy_pass http://b:1; } location ~ \\.css$ { }";
        let text = of(&format!("location /api/ {{ proxy_pass http://a:1; }} {rest}"));
        assert_eq!(place(&text, "/api"), "to /api/", "{text}");
        assert_eq!((&*place(&text, "/api/"), &*place(&text, "/apis")), ("a:1", "b:1"), "{text}");
        for said in [
            "location /api/ { proxy_pass http://a:1; } location = /api { proxy_pass http://c:1; }",
            "location /api/ { proxy_pass http://a:1; } location /api { proxy_pass http://c:1; }",
        ] {
            let text = of(&format!("{said} {rest}"));
            assert_eq!(place(&text, "/api"), "c:1", "{said}: {text}");
        }
        for said in ["location /api/ { }", "location /api/ { internal; proxy_pass http://a:1; }"] {
            let text = of(&format!("{said} {rest}"));
            assert_eq!(place(&text, "/api"), "b:1", "{said}: {text}");
        }
    }

    #[test]
    fn a_beginning_that_a_rewrite_takes_away_is_taken_away() {
        for (location, regex) in
            [("/api/", "^/api/(.*)$"), ("/api", "^/api/(.*)"), ("/api", "/api/(.*)"), ("/api/", "^/api/?(.*)$")]
        {
            let text = of(&format!(
                "location {location} {{ rewrite {regex} /$1 break; proxy_pass http://a:1; }} location / {{ proxy_pass http://b:1; }}"
            ));
            assert!(text.contains("strip_prefix = \"/api\"") && !text.contains("restore_prefix"), "{text}");
            assert_eq!((&*place(&text, "/api/x"), &*place(&text, "/x")), ("a:1", "b:1"), "{text}");
            assert_eq!(text.matches("strip_prefix").count(), 1, "{text}");
            let whole = if location == "/api" { "a:1" } else { "to /api/" };
            assert_eq!(place(&text, "/api"), whole, "{location} {regex}: {text}");
        }
        for other in [
            "^/api/(.*)$ /v1/$1 break",
            "^/api/(.*)$ /$1 last",
            "^/api/v1/(.*)$ /$1 break",
            "^/api/(.+)\\.json$ /$1 break",
        ] {
            let text = of(&format!("location /api/ {{ rewrite {other}; proxy_pass http://a:1; }}"));
            assert!(!text.contains("strip_prefix") && text.contains("answered with 404"), "{text}");
        }
    }
}
