//! DELETE where WebDAV is spoken (RFC 4918 9.6): folders go with all that is in them.
//!
//! Owns: [`Remove`]. Guarantees: each entry goes by a verdict on its own path; what stays is named in the answer (207),
//! and what is hidden is not named. Single files and empty folders are those of [`super::super::delete`].

use lamna_proto::exchange::program::{Holds, Input, Next, Program, StepResult};
use lamna_proto::parse::path;

use super::super::delete::{Delete, NOT_EMPTY};
use super::super::{Action, ChangeTarget, Conditions, Refused, name_of};
use super::erase::Erase;
use super::properties::begin_response;
use super::walk::Entry;
use super::{IS_BUSY, UNDER_WAY};
use crate::content::at_once::{ClientNetwork, Permit};

/// A deletion.
#[derive(Debug)]
pub(in super::super) struct Remove {
    delete: Delete,
    network: Option<ClientNetwork>,
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    erase: Erase,
    /// The paths of the folder: that of the request, and those by which it is reached besides.
    places: Vec<Vec<u8>>,
    /// Where its locks are.
    place: String,
    _permit: Permit,
}

impl Remove {
    pub(in super::super) fn new(target: ChangeTarget, conditions: Conditions, of: Option<ClientNetwork>) -> Remove {
        Remove { delete: Delete::new(target, conditions, false), network: of, under_way: None }
    }

    /// Removes what is removed at once, or begins with a folder.
    fn begin(&self) -> Result<Option<UnderWay>, Refused> {
        let target = self.delete.target();
        match self.delete.delete() {
            Err(NOT_EMPTY) => {}
            other => return other.map(|()| None),
        }
        let path = target.bare_path();
        let permit = UNDER_WAY.begin(self.network).map_err(|_| IS_BUSY)?;
        let (parent, place) = (target.directory(Action::Delete, path)?, target.place(path));
        let erase = Erase::new(parent, name_of(path), path)?;
        Ok(Some(UnderWay { erase, places: target.all_paths(path)?, place, _permit: permit }))
    }

    fn finish(&mut self) -> StepResult {
        let target = self.delete.target();
        let Some(UnderWay { erase, place, .. }) = self.under_way.take() else { return StepResult::Failed };
        let path = target.bare_path();
        target.handle_change_of_tree(path);
        if erase.failures.is_empty() {
            target.drop_locks(path, &place);
            return target.done(204, None);
        }
        let mut responses = String::new();
        for (failed, status) in &erase.failures {
            let of = if failed.is_empty() { path } else { failed };
            begin_response(of, &mut responses);
            responses
                .push_str(&format!("<D:status>HTTP/1.1 {}</D:status></D:response>\n", super::status_line(*status)));
        }
        target.multistatus(&responses)
    }
}

/// The status of an entry of the tree at the first of `places` that the client may not remove.
pub(super) fn stays(target: &ChangeTarget, places: &[Vec<u8>], entry: &Entry) -> Option<u16> {
    let Some(within) = places.first().and_then(|top| entry.path.strip_prefix(&**top)) else { return Some(403) };
    let may = |top: &Vec<u8>| target.may(Action::Delete, &[&**top, within].concat());
    (!places.iter().all(may)).then_some(403)
}

impl Program for Remove {
    fn content_bytes_max(&self) -> u64 {
        self.delete.content_bytes_max()
    }

    fn holds(&self) -> Holds {
        let erase = self.under_way.as_ref().map(|under_way| &under_way.erase);
        erase.map_or(Holds::default(), |erase| Holds { bytes: erase.memory_bytes(), descriptors: erase.descriptors() })
    }

    fn run(&mut self, Input { is_last, .. }: Input<'_>) -> StepResult {
        if !is_last {
            return StepResult::Continue;
        }
        if self.under_way.is_none() {
            match self.begin() {
                Ok(Some(under_way)) => self.under_way = Some(under_way),
                Ok(None) => return self.delete.target().done(204, None),
                Err(refused) => return self.delete.target().refusal(refused),
            }
        }
        let Remove { delete, under_way: Some(under_way), .. } = self else { return StepResult::Failed };
        let (target, places) = (delete.target(), &under_way.places);
        // Of what is hidden nothing is said but that the folder stays.
        let judge = |entry: &Entry| match path::is_hidden(&entry.path) {
            true => Some(HIDDEN),
            false => stays(target, places, entry),
        };
        if !under_way.erase.step(&judge) {
            return StepResult::Waits(Next::ROOM);
        }
        let failures = &mut under_way.erase.failures;
        for (path, status) in failures.iter_mut().filter(|(_, status)| *status == HIDDEN) {
            path.truncate(path.len() - name_of(path).len());
            *status = 403;
        }
        failures.dedup();
        self.finish()
    }
}

/// Marks what is hidden among what stays.
const HIDDEN: u16 = 0;
