//! `include` of nginx: directives of other files in the place of the directive.
//!
//! Owns: which files are meant, how deep they may lie in each other, and what Debian's snippets say where they are not
//! beside the configuration. Reads no file itself ([`Files`]).

use super::continuation;
use super::syntax::{self, Directive};
use crate::{Draft, FILE_LINES, Files};

/// Files within files.
const DEPTH_MAX: usize = 8;
/// Files that are read for one configuration.
const FILES_MAX: usize = 1_000;

/// Files of Debian's packages beside the configuration, as far as their directives mean something here.
const KNOWN: [(&str, &str); 7] = [
    (
        "snippets/fastcgi-php.conf",
        "fastcgi_split_path_info ^(.+?\\.php)(/.*)$; try_files $fastcgi_script_name =404; fastcgi_index index.php; include fastcgi.conf;",
    ),
    ("fastcgi.conf", ""),
    ("fastcgi_params", ""),
    ("uwsgi_params", ""),
    ("scgi_params", ""),
    (
        "proxy_params",
        "proxy_set_header Host $http_host;\nproxy_set_header X-Real-IP $remote_addr;\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\nproxy_set_header X-Forwarded-Proto $scheme;\n",
    ),
    ("mime.types", "types { }"),
];

/// Puts the directives of included files in the place of each `include`, and named locations where they are named. One
/// that cannot be read is left where it stands in a server: it may restrict.
pub(super) fn expand(directives: Vec<Directive>, files: Files<'_>, draft: &mut Draft) -> Vec<Directive> {
    continuation::expand(within(directives, files, (0, false), draft))
}

fn within(
    directives: Vec<Directive>,
    files: Files<'_>,
    (depth, in_server): (usize, bool),
    draft: &mut Draft,
) -> Vec<Directive> {
    let mut all = Vec::new();
    for mut directive in directives {
        if directive.name == "include" {
            let count = draft.lost.len();
            all.extend(included(&directive, files, (depth, in_server), draft));
            if draft.lost.len() > count && in_server {
                all.push(directive);
            }
            continue;
        }
        let in_server = in_server || directive.name == "server";
        directive.block = directive.block.map(|block| within(block, files, (depth, in_server), draft));
        all.push(directive);
    }
    all
}

fn included(
    directive: &Directive,
    files: Files<'_>,
    (depth, in_server): (usize, bool),
    draft: &mut Draft,
) -> Vec<Directive> {
    let pattern = directive.argument(0);
    let lose = |draft: &mut Draft, why: &str| draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
    if depth == DEPTH_MAX || draft.file_names.len() >= FILES_MAX {
        lose(draft, "there are too many files in each other");
        return Vec::new();
    }
    let is_pattern = pattern.contains(['*', '?', '[']);
    let paths = if is_pattern { (files.list)(pattern) } else { vec![pattern.to_owned()] };
    let mut found = Vec::new();
    for path in paths {
        let known = || KNOWN.iter().find(|(name, _)| path == *name || path.ends_with(&format!("/{name}")));
        let text = match (files.read)(&path) {
            // A table of media types that says much, and nothing that is not known here.
            Ok(_) if path.ends_with("mime.types") => "types { }".to_owned(),
            Ok(text) => text,
            Err(why) => match known() {
                Some((_, text)) => (*text).to_owned(),
                None => {
                    lose(draft, &format!("`{path}` cannot be read ({why}), and nothing that it says is carried over"));
                    continue;
                }
            },
        };
        draft.file_names.push(path.clone());
        match syntax::parse(&text) {
            Ok(mut directives) => {
                syntax::place(&mut directives, draft.file_names.len() * FILE_LINES);
                found.extend(within(directives, files, (depth + 1, in_server), draft));
            }
            Err(note) => lose(draft, &format!("line {} of `{path}`: {}", note.line, note.words)),
        }
    }
    found
}
