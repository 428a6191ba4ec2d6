//! Which files an application of FastCGI is asked to run: by the expression of its location.
//!
//! Owns: reading it. A location for all that ends with `.php` becomes an application that runs files of that extension,
//! so that index files and what is tried are run as well. That is done only where every path that fits has such an
//! extension, which is made sure of by the expression itself: what fits and is not run would be sent. Any other
//! location is handed to the application as it is. Pure.

use lamna_config::route::pattern::Pattern;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Which of the paths of a location are files that are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scripts {
    /// The application answers whatever is asked.
    Whole,
    /// All, and they have these extensions.
    Files(Vec<String>),
    /// Those that fit a narrower expression.
    Narrowed(String, Vec<String>),
}

/// Texts that an expression may end with.
const ENDS_MAX: usize = 64;
/// Bytes of an extension.
const EXTENSION_BYTES_MAX: usize = 8;

/// The scripts of the location of `pattern`; none is a server as a whole.
pub(super) fn of(pattern: Option<&Pattern>) -> Scripts {
    match pattern {
        Some(Pattern::Exact(path)) => match extension(path.as_bytes()) {
            Some(extension) => Scripts::Files(vec![extension]),
            None => Scripts::Whole,
        },
        Some(Pattern::Regex(text)) => match extensions(text) {
            Some(extensions) => Scripts::Files(extensions),
            None => narrowed(text).unwrap_or(Scripts::Whole),
        },
        _ => Scripts::Whole,
    }
}

/// The extensions of the files that are run; none for a server as a whole.
pub(super) fn extensions_of(pattern: &Pattern) -> Vec<String> {
    match of(Some(pattern)) {
        Scripts::Files(extensions) | Scripts::Narrowed(_, extensions) => extensions,
        Scripts::Whole => Vec::new(),
    }
}

/// Whether every path that fits ends with the script, so that nothing may follow it.
pub(super) fn ends_with_script(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Exact(_) => true,
        Pattern::Regex(text) => parsed(text).is_some_and(|hir| is_closed(&hir)),
        _ => false,
    }
}

/// Whether nothing may follow what fits.
fn is_closed(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Look(Look::End) => true,
        HirKind::Alternation(branches) => branches.iter().all(is_closed),
        HirKind::Capture(capture) => is_closed(&capture.sub),
        HirKind::Concat(parts) => match &parts[..] {
            // What stands before the end may be all that follows a script.
            [.., before, end] if matches!(end.kind(), HirKind::Look(_)) => is_closed(end) && !may_follow(before),
            [.., last] => is_closed(last),
            [] => false,
        },
        _ => false,
    }
}

/// Whether a part may end with a slash and what is behind it.
fn may_follow(hir: &Hir) -> bool {
    match hir.kind() {
        // A literal may be the path of a script itself.
        HirKind::Literal(literal) => match memchr::memrchr(b'.', &literal.0) {
            Some(dot) => literal.0[dot..].contains(&b'/'),
            None => literal.0.first() == Some(&b'/'),
        },
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&b'/'))
        }
        HirKind::Repetition(repetition) => may_follow(&repetition.sub),
        HirKind::Capture(capture) => may_follow(&capture.sub),
        HirKind::Concat(parts) => parts.last().is_some_and(may_follow),
        HirKind::Alternation(branches) => branches.iter().any(may_follow),
        _ => false,
    }
}

fn parsed(regex: &str) -> Option<Hir> {
    regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(regex).ok()
}

/// A narrower expression, of all of whose alternatives it is known which files they are for.
fn narrowed(text: &str) -> Option<Scripts> {
    let (mut branches, mut all) = (Vec::new(), Vec::new());
    for branch in branches_of(text) {
        // Any character is a dot as well.
        let dotted = branch.replace("\\.php", ".php").replace(".php", "\\.php");
        let closed = format!("{dotted}(/|$)");
        let found = [branch.to_owned(), closed].into_iter().find_map(|one| extensions(&one).map(|found| (one, found)));
        let (branch, found) = found?;
        branches.push(branch);
        all.extend(found);
    }
    all.sort_unstable();
    all.dedup();
    let expression = match &branches[..] {
        [one] => one.clone(),
        several => several.iter().map(|one| format!("(?:{one})")).collect::<Vec<_>>().join("|"),
    };
    Some(Scripts::Narrowed(expression, all))
}

/// The alternatives that an expression consists of.
fn branches_of(text: &str) -> Vec<&str> {
    let (mut branches, mut start, mut depth, mut in_class, mut is_escaped) = (Vec::new(), 0, 0_u32, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth = depth.saturating_sub(1),
            '|' if !in_class && depth == 0 => {
                branches.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&text[start..]);
    branches
}

fn extensions(regex: &str) -> Option<Vec<String>> {
    let parsed = parsed(regex)?;
    let mut parts = Vec::new();
    flatten(&parsed, &mut parts);
    // All that fits ends where the expression ends, or goes on behind a slash.
    let mut found: Vec<Vec<u8>> = vec![Vec::new()];
    for part in parts.iter().rev() {
        let texts = ends(part)?;
        found = texts.iter().flat_map(|start| found.iter().map(move |end| [&start[..], &end[..]].concat())).collect();
        if found.len() > ENDS_MAX {
            return None;
        }
        if found.iter().all(|end| end.contains(&b'.')) {
            break;
        }
    }
    let is_closed = parts.iter().rev().take_while(|part| !matches!(part.kind(), HirKind::Literal(_))).any(is_end);
    let mut extensions: Vec<String> =
        found.iter().map(|end| extension(end)).collect::<Option<Vec<_>>>().filter(|_| is_closed)?;
    extensions.sort_unstable();
    extensions.dedup();
    Some(extensions)
}

fn flatten<'h>(hir: &'h Hir, parts: &mut Vec<&'h Hir>) {
    match hir.kind() {
        HirKind::Concat(inner) => inner.iter().for_each(|one| flatten(one, parts)),
        HirKind::Capture(capture) => flatten(&capture.sub, parts),
        _ => parts.push(hir),
    }
}

/// Whether nothing but what is behind a slash may follow.
fn is_end(hir: &&Hir) -> bool {
    match hir.kind() {
        HirKind::Look(Look::End) => true,
        HirKind::Alternation(branches) => branches.iter().all(|one| is_end(&one) || begins_with_slash(one)),
        HirKind::Capture(capture) => is_end(&&*capture.sub),
        HirKind::Concat(inner) => inner.last().is_some_and(|last| is_end(&last)),
        _ => false,
    }
}

fn begins_with_slash(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.first() == Some(&b'/'),
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().all(|one| (one.start(), one.end()) == (b'/', b'/'))
        }
        HirKind::Capture(capture) => begins_with_slash(&capture.sub),
        HirKind::Concat(inner) => inner.first().is_some_and(begins_with_slash),
        HirKind::Alternation(branches) => branches.iter().all(begins_with_slash),
        _ => false,
    }
}

/// All texts that a part may stand for; what is behind a slash does not matter. None if they are too many.
fn ends(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    // A literal may be the path of a script itself.
    if begins_with_slash(hir) && !matches!(hir.kind(), HirKind::Literal(_)) {
        return Some(vec![b"/".to_vec()]);
    }
    Some(match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![Vec::new()],
        HirKind::Literal(literal) => vec![literal.0.to_vec()],
        HirKind::Class(Class::Bytes(class)) => {
            let bytes: Vec<u8> = class.ranges().iter().flat_map(|range| range.start()..=range.end()).take(17).collect();
            if bytes.len() > 16 {
                return None;
            }
            bytes.into_iter().map(|byte| vec![byte]).collect()
        }
        HirKind::Class(Class::Unicode(_)) => return None,
        HirKind::Repetition(repetition)
            if repetition.min == 0 && (repetition.max == Some(1) || begins_with_slash(&repetition.sub)) =>
        {
            let mut once = ends(&repetition.sub)?;
            once.push(Vec::new());
            once
        }
        HirKind::Repetition(_) => return None,
        HirKind::Capture(capture) => ends(&capture.sub)?,
        HirKind::Alternation(branches) => branches.iter().map(ends).collect::<Option<Vec<_>>>()?.concat(),
        HirKind::Concat(inner) => {
            let mut found = vec![Vec::new()];
            for part in inner {
                let texts = ends(part)?;
                found = found
                    .iter()
                    .flat_map(|start: &Vec<u8>| texts.iter().map(move |end| [&start[..], &end[..]].concat()))
                    .collect();
                if found.len() > ENDS_MAX {
                    return None;
                }
            }
            found
        }
    })
}

/// That of a file, or of a file that something stands behind.
fn extension(path: &[u8]) -> Option<String> {
    let dot = memchr::memrchr(b'.', path)? + 1;
    let rest = &path[dot..];
    let extension = &rest[..memchr::memchr(b'/', rest).unwrap_or(rest.len())];
    let is_usual =
        (1..=EXTENSION_BYTES_MAX).contains(&extension.len()) && extension.iter().all(u8::is_ascii_alphanumeric);
    is_usual.then(|| String::from_utf8_lossy(extension).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(extensions: &[&str]) -> Scripts {
        Scripts::Files(extensions.iter().map(|one| (*one).to_owned()).collect())
    }

    #[test]
    fn an_expression_says_which_files_are_run_only_if_all_that_fits_is() {
        for (regex, expected) in [
            (r"\.php$", files(&["php"])),
            (r"[^/]\.php(/|$)", files(&["php"])),
            (r"^/(index|remote)\.php(?:$|/)", files(&["php"])),
            (r"^(.+\.php)(/.*)?$", files(&["php"])),
            (r"^/index\.php(/|$)", files(&["php"])),
            (r"^/(?:a/b\.php|c\.php)$", files(&["php"])),
            (r"\.(php|phtml)$", files(&["php", "phtml"])),
            (r"\.php[57]?$", files(&["php", "php5", "php7"])),
            (r"(?i)\.pl$", files(&["PL", "Pl", "pL", "pl"])),
            (r"\.php[0-9]*$", Scripts::Whole),
            (r"^/(status|ping)$", Scripts::Whole),
            (r"\.php$|^/api", Scripts::Whole),
            (r"^(.+\.php)(.*)$", Scripts::Whole),
        ] {
            let pattern = Pattern::from_regex(regex).unwrap();
            assert_eq!(of(Some(&pattern)), expected, "{regex}");
        }
        let open = Pattern::from_regex(r"\.php").unwrap();
        assert_eq!(of(Some(&open)), Scripts::Narrowed(r"\.php(/|$)".into(), vec!["php".into()]));
        // As Drupal has it.
        let either = Pattern::from_regex(r"\.php$|^/update.php").unwrap();
        let narrower = r"(?:\.php$)|(?:^/update\.php(/|$))";
        assert_eq!(of(Some(&either)), Scripts::Narrowed(narrower.into(), vec!["php".into()]));
        assert_eq!(of(Some(&Pattern::Exact("/a.php".into()))), files(&["php"]));
        assert_eq!(of(Some(&Pattern::Exact("/ping".into()))), Scripts::Whole);
        assert_eq!(of(Some(&Pattern::Prefix("/a.php".into()))), Scripts::Whole);
    }

    #[test]
    fn an_expression_says_whether_something_may_follow_the_script() {
        for (regex, expected) in [
            (r"\.php$", true),
            (r"^(.+\.php)$", true),
            (r"(?i)\.(php|phtml)$", true),
            (r"^/(?:a\.php$|b\.php$)", true),
            (r"[^/]\.php(/|$)", false),
            (r"^(.+\.php)(/.*)?$", false),
            (r"\.php(?:$|/)", false),
            (r"\.php", false),
        ] {
            assert_eq!(ends_with_script(&Pattern::from_regex(regex).unwrap()), expected, "{regex}");
        }
    }
}
