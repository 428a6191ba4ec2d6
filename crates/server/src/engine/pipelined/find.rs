//! The find stage: finds out what targets stand for, in the caches or without waiting, and leaves the rest to the path
//! helper.
//!
//! Owns: the pool's front of the path translation cache. Guarantees: never waits for the disk.

use std::sync::Arc;

use lamna_proto::conn::Interest;
use lamna_proto::exchange::Done;
use rustix::io::Errno;

use super::helpers::Errand;
use super::parcel::{Parcel, Station, Want};
use super::queue::Urgency;
use super::{Gives, Pool, Takes};
use crate::cache::Entry;
use crate::content::translate::translate;
use crate::engine::desk::{Desk, Found, Target};
use crate::io::{Counters, Wait};

/// Where connections come from and go to.
pub(super) struct Ends {
    /// With requests.
    pub from_read: Takes,
    /// With what the helper found.
    pub from_helper: Takes,
    /// Whose targets cannot be found without waiting.
    pub to_helper: Gives<Errand>,
    /// Whose targets are found.
    pub to_header: Gives,
}

struct Find<'a> {
    station: Station<'a>,
    ends: Ends,
}

/// The life of the find stage.
///
/// # Errors
/// None.
pub(super) fn run(pool: &Pool, ends: Ends) -> Result<(), Errno> {
    let bell = &pool.bells.find;
    bell.introduce();
    let mut stage = Find { station: Station::new(pool), ends };
    while !pool.is_over() {
        let ends = &stage.ends;
        bell.park(stage.station.flush_ms(), || {
            let arrived = !(ends.from_read.is_empty() && ends.from_helper.is_empty());
            arrived || pool.is_over() || !ends.to_helper.is_settled() || !ends.to_header.is_settled()
        });
        stage.station.begin();
        while let Some(parcel) = stage.ends.from_helper.take() {
            stage.find(parcel);
        }
        while let Some(parcel) = stage.ends.from_read.take() {
            stage.find(parcel);
        }
        stage.ends.to_header.deliver();
        stage.ends.to_helper.deliver();
        stage.station.desk.flush_if_due();
    }
    Ok(())
}

impl Find<'_> {
    fn find(&mut self, parcel: Box<Parcel>) {
        let Some(mut parcel) = self.station.keep(parcel) else { return };
        let to_helper = &mut self.ends.to_helper;
        self.station.work_on(&mut parcel, |parcel, desk| {
            let Parcel { slot, wants, .. } = parcel;
            let connection = &mut slot.connection;
            // What is not found stays wanted.
            wants.retain_mut(|want| {
                let entry = look_up(desk, want, to_helper);
                if let Some(entry) = &entry {
                    connection.handle_done(want.exchange, Done::Translated(&entry.resource), desk.now);
                }
                entry.is_none()
            });
        });
        // What can be sent already does not wait for what cannot: the connection will be back.
        if parcel.wants.is_empty() || parcel.slot.connection.interest() == Interest::Send {
            self.ends.to_header.put(parcel, Urgency::Now);
        } else {
            Counters::count(&self.station.pool.shared.abilities.counters.helper_jobs);
            self.ends.to_helper.put(Errand::Translate(parcel), Urgency::Now);
        }
    }
}

/// What the target stands for, if that can be found without waiting.
fn look_up(desk: &mut Desk<'_>, want: &mut Want, to_helper: &mut Gives<Errand>) -> Option<Arc<Entry>> {
    if let Some(entry) = want.found.take() {
        desk.keep(&want.target, &entry);
        return Some(entry);
    }
    match desk.look_up_target(&want.target) {
        Found::Fresh(entry) => Some(entry.clone()),
        Found::Aging(entry, target) => {
            let entry = entry.clone();
            refresh(desk, target, to_helper);
            Some(entry)
        }
        Found::Missing(target) => {
            want.target = target;
            let entry = translate(&want.target.question(desk.shared, Wait::No, desk.now)).ok()?;
            desk.keep(&want.target, &entry);
            Some(entry)
        }
    }
}

/// Compares a target that is in use with the file system.
fn refresh(desk: &mut Desk<'_>, target: Target, to_helper: &mut Gives<Errand>) {
    match translate(&target.question(desk.shared, Wait::No, desk.now)) {
        Ok(entry) => desk.keep(&target, &entry),
        Err(_) => {
            Counters::count(&desk.shared.abilities.counters.helper_jobs);
            to_helper.put(Errand::Refresh(target), Urgency::Now);
        }
    }
}
