//! `map` and `geo` of nginx, where a server does nothing with their variable but refuse or lead elsewhere.
//!
//! Owns: the directives that are put in their place: a location for each path of a map, `allow` and `deny` for the
//! networks of a geo. Guarantees: what cannot be said so is left as it was, and is judged as a condition that is not
//! understood.

use super::syntax::Directive;
use crate::Draft;

/// Puts plain directives in the place of variables of `map` and `geo`.
pub(super) fn expand(directives: &mut Vec<Directive>, draft: &mut Draft) {
    let mut found = Vec::new();
    gather(directives, &mut found);
    for table in &found {
        let mut uses = 0;
        count(directives, table.argument(1), &mut uses);
        if uses == 0 {
            // A geo has the client in front of its variable only if it is named.
            continue;
        }
        let mut replaced = 0;
        servers(directives, &mut |inner| replaced += usize::from(replace(inner, table, draft)));
        if replaced == uses && replaced > 0 {
            forget(directives, table);
        }
    }
}

/// The tables, each as `map SOURCE VARIABLE`.
fn gather(directives: &[Directive], found: &mut Vec<Directive>) {
    for directive in directives {
        match (&*directive.name, &directive.arguments[..]) {
            ("map", [source, _]) if matches!(&**source, "$uri" | "$request_uri" | "$document_uri") => {
                found.push(directive.clone());
            }
            ("geo", [_]) => {
                let mut whole = directive.clone();
                whole.arguments.insert(0, "$remote_addr".to_owned());
                found.push(whole);
            }
            ("geo", [source, _]) if source == "$remote_addr" => found.push(directive.clone()),
            ("http", _) => gather(directive.block.as_deref().unwrap_or_default(), found),
            _ => {}
        }
    }
}

/// Counts directives of servers that use a variable.
fn count(directives: &[Directive], variable: &str, uses: &mut usize) {
    for directive in directives.iter().filter(|one| !matches!(&*one.name, "map" | "geo")) {
        *uses +=
            usize::from(directive.arguments.iter().any(|one| has_variable(one, variable)) && directive.block.is_some());
        let is_alone = directive.block.is_none() && directive.arguments.iter().any(|one| has_variable(one, variable));
        // Within a condition on it the variable is a part of that condition.
        *uses += usize::from(is_alone);
        let inner = directive.block.as_deref().unwrap_or_default();
        if directive.name == "if" && directive.arguments.concat() == format!("({variable})") {
            continue;
        }
        count(inner, variable, uses);
    }
}

fn has_variable(text: &str, variable: &str) -> bool {
    text.match_indices(variable)
        .any(|(at, _)| !text[at + variable.len()..].starts_with(|one: char| one.is_ascii_alphanumeric() || one == '_'))
}

fn servers(directives: &mut [Directive], does: &mut dyn FnMut(&mut Vec<Directive>)) {
    for directive in directives {
        match (&*directive.name, &mut directive.block) {
            ("http", Some(inner)) => servers(inner, does),
            ("server", Some(inner)) => does(inner),
            _ => {}
        }
    }
}

fn forget(directives: &mut Vec<Directive>, table: &Directive) {
    directives.retain(|one| one.line != table.line || one.name != table.name);
    for one in directives.iter_mut().filter(|one| one.name == "http") {
        forget(one.block.get_or_insert_default(), table);
    }
}

/// Replaces the condition of a server on a table. Whether it was there.
fn replace(inner: &mut Vec<Directive>, table: &Directive, draft: &mut Draft) -> bool {
    let variable = table.argument(1);
    let is_it = |one: &Directive| one.name == "if" && has_variable(&one.arguments.concat(), variable);
    let [at] = inner.iter().enumerate().filter(|(_, one)| is_it(one)).map(|(at, _)| at).collect::<Vec<_>>()[..] else {
        return false;
    };
    let condition = inner[at].arguments.concat();
    let [only] = inner[at].block.as_deref().unwrap_or_default() else { return false };
    if only.name != "return" {
        return false;
    }
    let made = match &*table.name {
        "map" if condition == format!("({variable})") => locations(only, inner, table, draft),
        "geo" => networks(&condition, only, inner, table),
        _ => None,
    };
    let Some(made) = made else { return false };
    inner.remove(at);
    // The first expression that fits counts, so theirs stand in front of all others.
    inner.splice(0..0, made);
    true
}

/// Whether capitals and small letters are the same in a path: a map compares so.
fn has_letters(path: &str) -> bool {
    path.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Whether a location of the server may take requests for `path` in front of those of a map.
fn is_before(location: &Directive, path: &str) -> bool {
    let Some(other) = location.arguments.last().filter(|_| location.name == "location") else { return false };
    let begins = path.get(..other.len()).is_some_and(|start| start.eq_ignore_ascii_case(other));
    let has_inner = location.block.iter().flatten().any(|one| one.name == "location");
    match location.argument(0) {
        _ if other == path => true,
        "=" => other.eq_ignore_ascii_case(path),
        "^~" => has_letters(path) && begins,
        _ => has_letters(path) && has_inner,
    }
}

/// A location for each path of a map, which does what the condition does.
fn locations(does: &Directive, inner: &[Directive], table: &Directive, draft: &mut Draft) -> Option<Vec<Directive>> {
    let variable = table.argument(1);
    let mut made = Vec::new();
    let mut lost = Vec::new();
    for entry in table.block.as_deref().unwrap_or_default() {
        let (key, value) = (&*entry.name, entry.argument(0));
        if key == "default" && matches!(value, "" | "0") {
            continue;
        }
        let path = key.strip_prefix('\\').unwrap_or(key);
        let is_path = path.starts_with('/') && !path.contains(['?', '%']);
        let is_there = inner.iter().any(|one| is_before(one, path));
        match matches!(value, "" | "0") {
            _ if key == "default" || matches!(key, "include" | "volatile" | "hostnames") => return None,
            true => {}
            false if !is_path || is_there => lost.push(entry),
            false => {
                let arguments = does
                    .arguments
                    .iter()
                    .map(|one| one.replace(&format!("${{{}}}", &variable[1..]), value).replace(variable, value));
                let inner = Directive::new(entry.line, "return", arguments.collect(), None);
                let location = |kind: &str, path: String| {
                    Directive::new(entry.line, "location", vec![kind.into(), path], Some(vec![inner.clone()]))
                };
                made.push(location("=", path.to_owned()));
                if has_letters(path) {
                    made.push(location("~*", format!("^{}$", regex::escape(path))));
                }
            }
        }
    }
    // A refusal is for all that it is for.
    if !lost.is_empty() && does.arguments.first().is_none_or(|status| !status.starts_with('3')) {
        return None;
    }
    for entry in lost {
        let why = "paths of a map are written out, each in no other location";
        draft.lose(entry.line, format!("`{}`: {why}", entry.text()));
    }
    (!made.is_empty()).then_some(made)
}

/// `allow` and `deny` for the networks of a geo by which requests are refused.
fn networks(condition: &str, does: &Directive, inner: &[Directive], table: &Directive) -> Option<Vec<Directive>> {
    let variable = table.argument(1);
    let refused: &dyn Fn(&str) -> bool = match condition.strip_prefix('(')?.strip_suffix(')')? {
        rest if rest == variable => &|value| !matches!(value, "" | "0"),
        rest => {
            let rest = rest.strip_prefix(variable)?;
            let (is_not, wanted) = match rest.strip_prefix("!=") {
                Some(wanted) => (true, wanted),
                None => (false, rest.strip_prefix('=')?),
            };
            let wanted = wanted.trim_matches(['"', '\'']).to_owned();
            return of_networks(&|value: &str| (value == wanted) != is_not, does, inner, table);
        }
    };
    of_networks(refused, does, inner, table)
}

fn of_networks(
    refused: &dyn Fn(&str) -> bool,
    does: &Directive,
    inner: &[Directive],
    table: &Directive,
) -> Option<Vec<Directive>> {
    let is_about = |one: &Directive| matches!(&*one.name, "allow" | "deny" | "satisfy");
    let has_own = inner.iter().any(|one| is_about(one) || one.block.iter().flatten().any(is_about));
    if has_own || !matches!(does.argument(0), "403" | "444" | "404") {
        return None;
    }
    let (mut others, mut default) = (Vec::new(), refused(""));
    for entry in table.block.as_deref().unwrap_or_default() {
        match &*entry.name {
            "default" => default = refused(entry.argument(0)),
            "ranges" | "include" | "delete" | "proxy" | "proxy_recursive" => return None,
            network => others.push((entry.line, network.to_owned(), refused(entry.argument(0)))),
        }
    }
    // Of networks within others the smaller counts: that is said by none within another.
    if others.iter().any(|(.., is_refused)| *is_refused == default) || others.is_empty() {
        return None;
    }
    let (name, last) = if default { ("allow", Some("deny")) } else { ("deny", None) };
    let mut made: Vec<Directive> =
        others.into_iter().map(|(line, network, _)| Directive::new(line, name, vec![network], None)).collect();
    made.extend(last.map(|last| Directive::new(table.line, last, vec!["all".into()], None)));
    Some(made)
}

#[cfg(test)]
mod tests {
    use crate::asked::Asked;
    use crate::{Files, nginx};

    fn text_of(outer: &str, inner: &str) -> String {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        nginx(&format!("http {{ {outer} server {{ root /srv; {inner} }} }}"), files).unwrap().text
    }

    #[test]
    fn a_map_of_paths_leads_each_of_them_elsewhere() {
        let map = "map $uri $to { default \"\"; /old /new; /a/b https://b.example/; ~^/x /y; }";
        let text = text_of(map, "if ($to) { return 301 $to; }");
        for (path, expected) in [("/old", "to /new"), ("/a/b", "to https://b.example/"), ("/c", "file /c")] {
            assert_eq!(Asked::of(path).answer(&text, ""), expected, "{path} {text}");
        }
        assert!(text.contains("`~^/x /y`") && !text.contains("`map"), "{text}");
        // One that is used otherwise as well is left, and judged as a condition that is not understood.
        let text = text_of(map, "add_header X-To $to; if ($to) { return 403; }");
        assert_eq!(Asked::of("/c").answer(&text, ""), "nothing", "{text}");
    }

    #[test]
    fn capitals_and_small_letters_are_the_same_in_a_map() {
        let map = "map $uri $bad { default 0; /admin 1; /x/y.txt 1; }";
        for others in [
            "",
            "location ~ \\.txt$ { return 200 x; }",
            "location ^~ /a { return 200 x; }",
            "location = /Admin { return 200 x; } location = /X/y.txt { return 200 x; }",
            "location / { location = /Admin { return 200 x; } location ~ . { return 200 x; } }",
        ] {
            let text = text_of(map, &format!("{others} if ($bad) {{ return 403; }}"));
            for path in ["/admin", "/Admin", "/aDMIN", "/x/y.txt", "/X/y.txt"] {
                let (place, answer) = (Asked::of(path).place(&text, ""), Asked::of(path).answer(&text, ""));
                assert!(place != "200" && answer == "nothing", "{others} {path}: {place} {answer} {text}");
            }
        }
        let text = text_of(map, "if ($bad) { return 403; }");
        assert_eq!(Asked::of("/administrator").answer(&text, ""), "file /administrator", "{text}");
        let text = text_of("map $uri $to { default \"\"; /old /new; }", "if ($to) { return 301 $to; }");
        assert_eq!(Asked::of("/OLD").answer(&text, ""), "to /new", "{text}");
    }

    #[test]
    fn a_geo_of_networks_is_who_is_let_in() {
        let text = text_of("geo $bad { default 0; 10.0.0.0/8 1; 192.0.2.1 1; }", "if ($bad) { return 403; }");
        assert!(text.contains("deny = [\"10.0.0.0/8\", \"192.0.2.1\"]"), "{text}");
        let text = text_of("geo $office { default 0; 10.0.0.0/8 1; }", "if ($office = 0) { return 403; }");
        assert!(text.contains("allow = [\"10.0.0.0/8\"]"), "{text}");
        for geo in [
            "default 0; 10.0.0.0/8 1; 10.1.0.0/16 0;",
            "ranges; default 0; 10.0.0.0-10.0.0.9 1;",
            "include x; default 0;",
        ] {
            let text = text_of(&format!("geo $bad {{ {geo} }}"), "if ($bad) { return 403; }");
            assert_eq!(Asked::of("/c").answer(&text, ""), "nothing", "{geo} {text}");
        }
    }
}
