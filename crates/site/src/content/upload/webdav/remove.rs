//! DELETE where WebDAV is spoken (RFC 4918 9.6): folders go with all that is in them.
//!
//! Owns: [`Remove`]. Guarantees: each entry goes by a verdict on all its paths, and a folder that is the root of an
//! alias stays; what stays is named in the answer (207), but for what the client may not read. Single files and empty
//! folders are those of [`super::super::delete`].

use lamna_proto::exchange::program::{Holds, Input, Next, Program, StepResult};
use lamna_proto::parse::path;

use super::super::delete::{Delete, NOT_EMPTY};
use super::super::{Action, ChangeTarget, Conditions, Refused, name_of, parent_of};
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
        let erase = Erase::new(parent, name_of(path), path, target.places())?;
        Ok(Some(UnderWay { erase, place, _permit: permit }))
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
        let mut named: Vec<(&[u8], u16)> =
            erase.failures.iter().map(|(failed, status)| (told_part(target, failed), *status)).collect();
        named.dedup();
        for (of, status) in &named {
            begin_response(of, &mut responses);
            responses
                .push_str(&format!("<D:status>HTTP/1.1 {}</D:status></D:response>\n", super::status_line(*status)));
        }
        target.multistatus(&responses)
    }
}

/// The status of an entry that the client may not remove.
pub(super) fn stays(target: &ChangeTarget, entry: &Entry) -> Option<u16> {
    let may =
        |place: &[u8]| !target.is_root(place) && target.may(Action::Delete, place) && target.leaves_to_files(place);
    (!entry.places().all(may)).then_some(403)
}

/// The path `failed` of something in the folder that stays, or that of the innermost folder around it of which the
/// client may know.
fn told_part<'p>(target: &'p ChangeTarget, failed: &'p [u8]) -> &'p [u8] {
    let top = target.bare_path();
    let entered = target.rules();
    let is_told = |path: &[u8]| {
        let rules = target.rules_of(path);
        let is_let = rules.whom(Action::Read).is_none_or(|whom| entered.whom(Action::Delete) == Some(whom));
        is_let && !path::is_hidden(path) && !target.site().routes.hides(path)
    };
    let mut told = failed;
    loop {
        let bare = told.strip_suffix(b"/").unwrap_or(told);
        if bare.len() <= top.len() {
            return if told.is_empty() { top } else { told };
        }
        if is_told(bare) && is_told(&[bare, b"/"].concat()) {
            return told;
        }
        told = parent_of(bare);
    }
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
        let target = delete.target();
        if !under_way.erase.step(&|entry| stays(target, entry)) {
            return StepResult::Waits(Next::ROOM);
        }
        self.finish()
    }
}
