//! `try_files ... @name` of nginx: a named location in the place of its name.
//!
//! Owns: which named locations can be said where they are named: those in which nothing but an application and how it
//! is asked stands. Guarantees: what cannot is left as it is, for what reads locations to say so.
//!
//! ```text
//!   location / { try_files $uri @app; }            location / { try_files $uri @; proxy_pass http://app; }
//!   location @app { proxy_pass http://app; }  -->
//! ```

use super::syntax::Directive;

/// The last argument of a `try_files` behind which the application of its location comes.
pub(super) const APPLICATION: &str = "@";

/// Puts what named locations say where they are named, in every server.
pub(super) fn expand(mut directives: Vec<Directive>) -> Vec<Directive> {
    for directive in &mut directives {
        match (&*directive.name, &mut directive.block) {
            ("server", Some(block)) => server(block),
            ("http", Some(block)) => *block = expand(std::mem::take(block)),
            _ => {}
        }
    }
    directives
}

/// Whether the application of a block answers where no file is.
pub(super) fn is_behind_files(block: &[Directive]) -> bool {
    block.iter().any(|one| one.name == "try_files" && one.arguments.last().is_some_and(|last| last == APPLICATION))
}

/// Whether folders are looked for as well as files in the block. One that is the same for all is its index file.
pub(super) fn tries_folders(block: &[Directive]) -> bool {
    let is_folder = |path: &String| path.ends_with('/') && path.contains('$');
    block.iter().any(|one| one.name == "try_files" && one.arguments.iter().any(is_folder))
}

/// Whether files alone are looked for in the block: a folder is none, whatever is in it.
pub(super) fn tries_files_alone(block: &[Directive]) -> bool {
    block.iter().any(|one| one.name == "try_files") && !tries_folders(block)
}

/// Whether an application answers where neither a file nor a folder is, somewhere in a server.
pub(super) fn goes_on_from_folders(server: &[Directive]) -> bool {
    let mut blocks = server.iter().filter_map(|one| one.block.as_deref());
    is_behind_files(server) && tries_folders(server) || blocks.any(goes_on_from_folders)
}

/// Expands the block of one server.
fn server(block: &mut Vec<Directive>) {
    let named = |one: &Directive| one.name == "location" && one.argument(0).starts_with('@');
    let continuations: Vec<Directive> =
        block.iter().filter(|one| named(one)).filter(|one| asks(one)).cloned().collect();
    for_all_paths(block, &continuations);
    if continuations.is_empty() {
        return;
    }
    let mut used = Vec::new();
    within(block, &continuations, &mut used);
    let is_left = |name: &str, block: &[Directive]| names(block, name);
    used.retain(|name| !is_left(name, block));
    block.retain(|one| !(named(one) && used.iter().any(|name| name == one.argument(0))));
}

/// A server's own `try_files` is for paths of no location: it stands in one for all paths.
fn for_all_paths(block: &mut Vec<Directive>, continuations: &[Directive]) {
    let is_for_all = |one: &Directive| one.name == "location" && one.arguments == ["/"];
    let is_of_paths = |one: &Directive| {
        one.name == "try_files"
            && (continuation_of(one, continuations).is_some() || tries_files_alone(std::slice::from_ref(one)))
    };
    let Some(at) = block.iter().position(is_of_paths).filter(|_| !block.iter().any(is_for_all)) else { return };
    let tries = block.remove(at);
    let mut all = tries.clone();
    (all.name, all.arguments, all.block) = ("location".to_owned(), vec!["/".to_owned()], Some(vec![tries]));
    block.insert(at, all);
}

fn within(block: &mut [Directive], continuations: &[Directive], used: &mut Vec<String>) {
    let locations = block.iter_mut().filter(|one| one.name == "location" && !one.argument(0).starts_with('@'));
    for inner in locations.filter_map(|location| location.block.as_mut()) {
        within(inner, continuations, used);
        if inner.iter().any(is_pass) {
            continue;
        }
        let Some(tries) = inner.iter_mut().find(|one| one.name == "try_files") else { continue };
        let Some(continuation) = continuation_of(tries, continuations) else { continue };
        if let Some(last) = tries.arguments.last_mut() {
            APPLICATION.clone_into(last);
        }
        used.push(continuation.argument(0).to_owned());
        inner.extend(continuation.block.iter().flatten().cloned());
    }
}

/// The named location that comes behind files, if there are files before it.
fn continuation_of<'d>(tries: &Directive, continuations: &'d [Directive]) -> Option<&'d Directive> {
    let (last, files) = tries.arguments.split_last()?;
    let are_files = !files.is_empty() && files.iter().all(|one| !one.starts_with(['@', '=']));
    continuations.iter().find(|one| are_files && one.argument(0) == last)
}

/// Whether nothing but an application that answers everything, and how it is asked, stands in a named location.
fn asks(location: &Directive) -> bool {
    let block = location.block.as_deref().unwrap_or_default();
    let is_plain = |one: &Directive| {
        let is_of_application = ["proxy_", "uwsgi_", "scgi_"].iter().any(|start| one.name.starts_with(start));
        one.block.is_none() && (is_of_application || is_beside(&one.name))
    };
    block.iter().all(is_plain) && block.iter().filter(|one| is_pass(one)).count() == 1
}

/// Directives that mean the same in the location that goes on.
fn is_beside(name: &str) -> bool {
    matches!(
        name,
        "access_log" | "error_log" | "client_max_body_size" | "client_body_buffer_size" | "keepalive_timeout"
    )
}

fn is_pass(directive: &Directive) -> bool {
    matches!(&*directive.name, "proxy_pass" | "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "grpc_pass")
}

/// Whether a directive names a location so.
fn names(block: &[Directive], name: &str) -> bool {
    block.iter().any(|one| {
        let says = one.name != "location" && one.arguments.iter().any(|argument| argument == name);
        says || one.block.as_deref().is_some_and(|inner| names(inner, name))
    })
}
