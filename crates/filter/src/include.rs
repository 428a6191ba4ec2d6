//! The filter `include`: server-side includes, of which it knows those that are the same for everybody.
//!
//! ```text
//! text ──> pieces (directive) ──> expand ──> text with the content of other files
//!                                    │
//!                                    └──> Fault::Wants: files that it has not been given; it is run again with them
//! ```
//!
//! Owns: what a directive does, variables, and the bounds of what is put together. Guarantees: it reads no file: its
//! caller does, and decides which may be read; no program is run; equal texts and parts give equal pages. Where a
//! directive is wrong or a file is not there, an error text stands in its place and the page goes on, as other servers
//! do it.

mod directive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lamna_proto::date;
use lamna_proto::parse::path;

use crate::html::escaped;
use crate::{Content, Effect, Fault, Filter, Kind, Make, Parameters};
use directive::{Condition, Directive, Encoding, Piece, condition, pieces};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "include",
    about: "Puts other files into texts where they say so: server-side includes.",
    version: 1,
    effect: Effect::Choice,
    required: &[],
    optional: &[("error", "What stands in the place of a directive that is wrong, or whose file is not there")],
    make,
};

/// The message of other servers.
const ERROR: &str = "[an error occurred while processing this directive]";

/// How deep files may include others.
const DEPTH_MAX: usize = 8;
/// How many different files one page may be made of, beside itself.
const PARTS_MAX: usize = 100;
/// The most bytes of these files, and of the result.
const BYTES_MAX: u64 = 16 << 20;
/// How many directives are followed in one page, with those of its parts.
const DIRECTIVES_MAX: usize = 100_000;
/// How many variables a page may have, and how long the value of one may be.
const VARIABLES_MAX: usize = 100;
const VALUE_BYTES_MAX: usize = 4096;

/// Other files that content is put together from, as far as they have been read for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The path at which the content itself is: absolute and decoded.
    pub path: String,
    /// When the content was modified, in seconds since 1970, if that is known.
    pub modified_s: Option<u64>,
    /// The content of others by the path that was [wanted](Fault::Wants); none for one that is not there for this page.
    pub found: BTreeMap<String, Option<Arc<[u8]>>>,
}

#[derive(Debug)]
struct Include {
    error: Arc<str>,
}

/// Whether a text may leave out something that it says: because of a condition, or of what is wrong.
pub fn has_choices(text: &[u8]) -> bool {
    let is_plain = |directive: &Directive| {
        use Directive::{Echo, Error, IncludeFile, IncludePath, Set};
        matches!(directive, IncludePath(_) | IncludeFile(_) | Set(..) | Echo(..) | Error(_))
    };
    pieces(text).any(|piece| matches!(&piece, Piece::Directive(directive) if !is_plain(directive)))
}

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let error = parameters.get("error").map_or(ERROR, String::as_str);
    Ok(Arc::new(Include { error: error.into() }))
}

impl Make for Include {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        let parts = content.parts.clone()?;
        let including =
            || Box::new(Including { error: self.error.clone(), parts, text: Vec::new() }) as Box<dyn Filter>;
        (content.is_plain() && content.is_text()).then(including)
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn needs_whole(&self) -> bool {
        true
    }
}

struct Including {
    error: Arc<str>,
    parts: Arc<Parts>,
    text: Vec<u8>,
}

impl Filter for Including {
    fn take(&mut self, piece: &[u8], _: &mut Vec<u8>) -> Result<(), Fault> {
        self.text.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let mut page = Page {
            parts: &self.parts,
            variables: variables(&self.parts),
            error: self.error.to_string(),
            within: vec![self.parts.path.clone()],
            wanted: BTreeSet::new(),
            directives: 0,
            out,
        };
        page.expand(&self.text)?;
        let wanted = page.wanted;
        match wanted.len() + self.parts.found.len() {
            _ if wanted.is_empty() => Ok(()),
            parts if parts > PARTS_MAX => Err(Fault::Content(format!("it includes more than {PARTS_MAX} files"))),
            _ => Err(Fault::Wants(wanted.into_iter().collect())),
        }
    }
}

/// The variables that every page has.
fn variables(parts: &Parts) -> BTreeMap<String, String> {
    let name = parts.path.rsplit('/').next().unwrap_or_default();
    let mut variables: BTreeMap<String, String> =
        [("DOCUMENT_URI".into(), parts.path.clone()), ("DOCUMENT_NAME".into(), name.into())].into();
    if let Some(modified_s) = parts.modified_s {
        let modified = String::from_utf8_lossy(&date::format(modified_s)).into_owned();
        variables.insert("LAST_MODIFIED".into(), modified);
    }
    variables
}

/// A page that is being put together.
struct Page<'a> {
    parts: &'a Parts,
    variables: BTreeMap<String, String>,
    /// Text shown in place of a failed directive.
    error: String,
    /// The paths of the file that is being expanded, and of those that include it; the last is its own.
    within: Vec<String>,
    /// Files that have not been read yet.
    wanted: BTreeSet<String>,
    directives: usize,
    out: &'a mut Vec<u8>,
}

/// One `if` with what belongs to it.
#[derive(Clone, Copy, Debug)]
struct Branches {
    /// The page is put together here.
    is_on: bool,
    /// One of its conditions has held, or none can hold.
    is_decided: bool,
}

impl Page<'_> {
    fn expand(&mut self, content: &[u8]) -> Result<(), Fault> {
        // Conditions are those of one file: none reaches into another.
        let mut branches: Vec<Branches> = Vec::new();
        for piece in pieces(content) {
            let is_on = branches.iter().all(|one| one.is_on);
            match piece {
                Piece::Text(text) if is_on => self.write(text)?,
                Piece::Text(_) => {}
                Piece::Directive(directive) => {
                    self.directives += 1;
                    if self.directives > DIRECTIVES_MAX {
                        return Err(Fault::Content(format!("it has more than {DIRECTIVES_MAX} directives")));
                    }
                    if !self.branch(&directive, is_on, &mut branches)? && is_on {
                        self.follow(directive)?;
                    }
                }
            }
        }
        // Something is missing at the end.
        if branches.is_empty() { Ok(()) } else { self.write_error() }
    }

    /// Does what directives about conditions say. False if it is another one.
    fn branch(&mut self, directive: &Directive, is_on: bool, branches: &mut Vec<Branches>) -> Result<bool, Fault> {
        match (directive, branches.last().copied()) {
            (Directive::If(expression), _) => {
                let holds = is_on && self.holds(expression)?;
                branches.push(Branches { is_on: holds, is_decided: holds || !is_on });
            }
            (Directive::Elif(expression), Some(last)) => {
                let holds = !last.is_decided && self.holds(expression)?;
                branches.pop();
                branches.push(Branches { is_on: holds, is_decided: last.is_decided || holds });
            }
            (Directive::Else, Some(last)) => {
                branches.pop();
                branches.push(Branches { is_on: !last.is_decided, is_decided: true });
            }
            (Directive::Endif, Some(_)) => _ = branches.pop(),
            (Directive::Elif(_) | Directive::Else | Directive::Endif, None) => self.write_error()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn follow(&mut self, directive: Directive) -> Result<(), Fault> {
        match directive {
            Directive::IncludePath(value) => self.include(&value, false),
            Directive::IncludeFile(value) => self.include(&value, true),
            Directive::Set(name, value) => self.set(name, &value),
            Directive::Echo(name, encoding) => match self.variables.get(&name).cloned() {
                Some(value) => self.write(encoded(&value, encoding).as_bytes()),
                None => self.write(b"(none)"),
            },
            Directive::Error(error) => {
                self.error = error;
                Ok(())
            }
            // Conditions are followed elsewhere.
            Directive::If(_) | Directive::Elif(_) | Directive::Else | Directive::Endif | Directive::Wrong => {
                self.write_error()
            }
        }
    }

    fn include(&mut self, value: &str, is_file: bool) -> Result<(), Fault> {
        let own = self.within.last().map_or("/", |path| path);
        let target = self.substituted(value).and_then(|value| resolve(own, &value, is_file));
        let Some(target) = target.filter(|target| !self.within.contains(target)) else { return self.write_error() };
        if self.within.len() > DEPTH_MAX {
            return self.write_error();
        }
        match self.parts.found.get(&target).cloned() {
            None => {
                self.wanted.insert(target);
                Ok(())
            }
            Some(None) => self.write_error(),
            Some(Some(content)) => {
                self.within.push(target);
                let done = self.expand(&content);
                self.within.pop();
                done
            }
        }
    }

    fn set(&mut self, name: String, value: &str) -> Result<(), Fault> {
        let is_name = !name.is_empty() && name.bytes().all(is_of_name);
        let has_room = self.variables.len() < VARIABLES_MAX || self.variables.contains_key(&name);
        match self.substituted(value) {
            Some(value) if is_name && has_room => {
                self.variables.insert(name, value);
                Ok(())
            }
            _ => self.write_error(),
        }
    }

    /// Whether a condition holds. One that cannot be read does not, and is said to be wrong.
    fn holds(&mut self, expression: &str) -> Result<bool, Fault> {
        match condition(expression).and_then(|condition| self.judge(&condition)) {
            Some(holds) => Ok(holds),
            None => self.write_error().map(|()| false),
        }
    }

    fn judge(&self, condition: &Condition) -> Option<bool> {
        Some(match condition {
            Condition::IsSet(text) => !self.substituted(text)?.is_empty(),
            Condition::Compare(left, is_equal, right) => {
                (self.substituted(left)? == self.substituted(right)?) == *is_equal
            }
            Condition::Not(other) => !self.judge(other)?,
        })
    }

    /// `text` with the values of the variables that it names (`$name`, `${name}`). None if it is too long, or names one
    /// without an end.
    fn substituted(&self, text: &str) -> Option<String> {
        let mut made = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('$') {
            made += before;
            let (name, behind) = match behind.strip_prefix('{') {
                Some(braced) => braced.split_once('}')?,
                None => behind.split_at(behind.bytes().position(|byte| !is_of_name(byte)).unwrap_or(behind.len())),
            };
            made += if name.is_empty() { "$" } else { self.variables.get(name).map_or("", String::as_str) };
            rest = behind;
            if made.len() > VALUE_BYTES_MAX {
                return None;
            }
        }
        made += rest;
        (made.len() <= VALUE_BYTES_MAX).then_some(made)
    }

    fn write_error(&mut self) -> Result<(), Fault> {
        let error = self.error.clone();
        self.write(error.as_bytes())
    }

    fn write(&mut self, text: &[u8]) -> Result<(), Fault> {
        if self.out.len() as u64 + text.len() as u64 > BYTES_MAX {
            return Err(Fault::TooLarge(BYTES_MAX));
        }
        self.out.extend_from_slice(text);
        Ok(())
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn encoded(value: &str, encoding: Encoding) -> String {
    match encoding {
        Encoding::None => value.to_owned(),
        Encoding::Url => path::encode(value.as_bytes()),
        Encoding::Entity => escaped(value),
    }
}

/// The path of the site, absolute and decoded, that `value` names in the file at `own`; none if it can name none.
fn resolve(own: &str, value: &str, is_file: bool) -> Option<String> {
    let directory = &own[..=own.rfind('/')?];
    if is_file {
        // A name of a file, as it is: not of a URL, and not outside of the directory.
        let is_inside = !value.starts_with('/') && value.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
        return is_inside.then(|| format!("{directory}{value}"));
    }
    let value = value.split(['?', '#']).next().filter(|value| !value.is_empty())?;
    let target = match value.starts_with('/') {
        true => value.to_owned(),
        false => path::encode(directory.as_bytes()) + value,
    };
    let mut decoded = Vec::new();
    path::normalise(target.as_bytes(), &mut decoded).ok()?;
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests;
