//! PROPPATCH (RFC 4918 9.2): properties that clients set and remove.
//!
//! Owns: [`Proppatch`]. Guarantees: all that is asked for is done, or none of it; what the server works out is not set;
//! what is kept is bounded. Properties are kept with their file (`lamna_io::properties`).

use std::collections::HashSet;
use std::os::fd::AsFd;

use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};
use rustix::io::Errno;

use super::super::{
    Action, CONDITION, ChangeTarget, Conditions, ELSEWHERE, HIDDEN, MALFORMED, NOT_HERE, OWN, Refused, name_of, refused,
};
use super::place::Change;
use super::properties::{NAMES_BYTES_MAX, begin_response, is_protected, push_propstat};
use super::xml::{self, BODY_BYTES_MAX, Element, Name, are_within};
use super::{BAD_BODY, NOTHING, dead};

/// A change of properties.
#[derive(Debug)]
pub(super) struct Proppatch {
    target: ChangeTarget,
    conditions: Conditions,
    body: Vec<u8>,
}

/// A change of one property.
enum Instruction {
    Set(Element),
    Remove(Name),
}

impl Instruction {
    fn name(&self) -> &Name {
        match self {
            Instruction::Set(element) => &element.name,
            Instruction::Remove(name) => name,
        }
    }
}

/// The namespace of the file attributes that Windows sets on each file that it copies.
const WINDOWS: &str = "urn:schemas-microsoft-com:";

impl Proppatch {
    pub(super) fn new(target: ChangeTarget, conditions: Conditions) -> Proppatch {
        Proppatch { target, conditions, body: Vec::new() }
    }

    /// Does it. The answer about each property.
    fn patch(&self) -> Result<String, Refused> {
        let target = &self.target;
        let (path, is_root) = (target.bare_path(), target.is_root(target.bare_path()));
        match () {
            () if target.is_from_elsewhere => return Err(ELSEWHERE),
            () if target.path.is_empty() => return Err(MALFORMED),
            () if lamna_proto::parse::path::is_hidden(path) => return Err(HIDDEN),
            () if target.site().routes.hides(path) => return Err(OWN),
            () if is_root => target.check_root(Action::Upload)?,
            () if !target.takes(path, false) => return Err(NOT_HERE),
            () => {}
        }
        let instructions = instructions(&self.body).ok_or(BAD_BODY)?;
        target.check_if()?;
        let (opened, is_folder, _) = target.open_at(&target.path)?;
        if !is_root {
            let parent = target.directory(Action::Upload, path)?;
            self.conditions.check(&parent, name_of(path), &target.abilities)?;
            // What a link leads to has a path of its own.
            let own = rustix::fs::statat(&parent, name_of(path), rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
            if own.is_ok_and(|own| rustix::fs::FileType::from_raw_mode(own.st_mode).is_symlink()) {
                return Err(NOTHING);
            }
        } else if !self.conditions.are_none() {
            return Err(CONDITION);
        }
        target.check_locks(path, Change::Describe)?;
        let statuses: Vec<&str> = if instructions.iter().any(|one| is_protected(one.name())) {
            let status = |one: &Instruction| if is_protected(one.name()) { PROTECTED } else { FAILED_DEPENDENCY };
            instructions.iter().map(status).collect()
        } else {
            let status = match keep(opened.as_fd(), &instructions) {
                Ok(()) => "200 OK",
                Err(Errno::NOSPC | Errno::TOOBIG | Errno::DQUOT | Errno::RANGE) => "507 Insufficient Storage",
                // Windows goes on only if they are taken, and asks for them nowhere.
                Err(Errno::OPNOTSUPP) if instructions.iter().all(|one| &*one.name().namespace == WINDOWS) => "200 OK",
                Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::ROFS) => "403 Forbidden",
                Err(errno) => return Err(refused(errno)),
            };
            target.handle_change(path);
            instructions.iter().map(|_| status).collect()
        };
        let slash = if is_folder { &b"/"[..] } else { b"" };
        let mut out = String::new();
        begin_response(&[path, slash].concat(), &mut out);
        for (instruction, status) in instructions.iter().zip(statuses) {
            let mut name = String::new();
            instruction.name().write_empty(&mut name);
            push_propstat(&name, status, &mut out);
            if status == PROTECTED {
                let end = out.len() - "</D:propstat>".len();
                out.insert_str(end, "<D:error><D:cannot-modify-protected-property/></D:error>");
            }
        }
        out.push_str("</D:response>\n");
        Ok(out)
    }
}

const PROTECTED: &str = "403 Forbidden";
const FAILED_DEPENDENCY: &str = "424 Failed Dependency";

/// The changes that `body` asks for, in its order; none if that makes no sense.
fn instructions(body: &[u8]) -> Option<Vec<Instruction>> {
    let root = xml::parse(body).ok().filter(|root| root.name.is_dav("propertyupdate"))?;
    let mut all = Vec::new();
    for part in root.into_children() {
        let (sets, removes) = (part.name.is_dav("set"), part.name.is_dav("remove"));
        if !sets && !removes {
            continue;
        }
        for prop in part.into_children().filter(|prop| prop.name.is_dav("prop")) {
            for property in prop.into_children() {
                all.push(if sets { Instruction::Set(property) } else { Instruction::Remove(property.name) });
            }
        }
    }
    // The answer names each of them.
    let is_bounded = are_within(all.iter().map(Instruction::name), NAMES_BYTES_MAX);
    (!all.is_empty() && is_bounded).then_some(all)
}

fn keep(file: std::os::fd::BorrowedFd<'_>, instructions: &[Instruction]) -> Result<(), Errno> {
    dead::keep(file, patched(dead::of(file), instructions))
}

/// The properties that `kept` become: of each name the last instruction counts.
fn patched(mut kept: Vec<Element>, instructions: &[Instruction]) -> Vec<Element> {
    let mut known = HashSet::new();
    let last = instructions.iter().rev().filter(|instruction| known.insert(instruction.name()));
    let set: Vec<Element> = last
        .filter_map(|instruction| match instruction {
            Instruction::Set(element) => Some(element.clone()),
            Instruction::Remove(_) => None,
        })
        .collect();
    kept.retain(|one| !known.contains(&one.name));
    kept.extend(set.into_iter().rev());
    kept
}

impl Program for Proppatch {
    fn content_bytes_max(&self) -> u64 {
        BODY_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        Holds::of_bytes(self.body.capacity())
    }

    fn run(&mut self, Input { content, is_last, .. }: Input<'_>) -> StepResult {
        self.body.extend_from_slice(content);
        if !is_last {
            return StepResult::Continue;
        }
        match self.patch() {
            Ok(response) => self.target.multistatus(&response),
            Err(refused) => self.target.refusal(refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_name_the_last_instruction_counts() {
        let body = b"<propertyupdate xmlns='DAV:' xmlns:q='u'><set><prop><q:a>1</q:a><q:b/><q:c/></prop></set>\
                     <remove><prop><q:b/><q:old/></prop></remove><set><prop><q:a>2</q:a></prop></set></propertyupdate>";
        let kept = xml::parse(b"<p xmlns='u'><old/><stays/></p>").unwrap().into_children().collect();
        let mut out = String::new();
        patched(kept, &instructions(body).unwrap()).iter().for_each(|element| element.write(&mut out));
        assert_eq!(out, "<stays xmlns=\"u\"/><c xmlns=\"u\"/><a xmlns=\"u\">2</a>");
    }

    #[test]
    fn the_names_of_an_answer_are_bounded() {
        let body = |count: usize| {
            let names: String = (0..count).map(|number| format!("<q:a{number}/>")).collect();
            let namespace = ">".repeat(256);
            format!(
                "<propertyupdate xmlns='DAV:' xmlns:q='{namespace}'><remove><prop>{names}</prop></remove></propertyupdate>"
            )
        };
        assert!(instructions(body(50).as_bytes()).is_some() && instructions(body(1000).as_bytes()).is_none());
    }
}
