//! The data stage: reads files and sends them, a piece at a time, and waits for slow peers.
//!
//! Owns: connections that cannot take more for the moment, and their timeouts. Guarantees: a connection gets a bounded
//! turn, however large its file; never waits for the disk: what is not in memory goes to the read helper.

use std::os::fd::AsFd;

use lamna_proto::conn::Interest;
use lamna_proto::exchange::Done;
use rustix::io::Errno;

use super::header::send_home;
use super::parcel::{Parcel, Reading, Station};
use super::queue::{Sleep, Urgency};
use super::residents::Residents;
use super::{BELL, Gives, Pool, Takes};
use crate::engine::desk::Desk;
use crate::engine::stretch::TURN_BYTES;
use crate::io::Counters;
use crate::io::wait::{Poll, Token};

/// Where connections come from and go to.
pub(super) struct Ends {
    /// With answers that are not sent yet.
    pub from_header: Takes,
    /// With stretches that have been read.
    pub from_helper: Takes,
    /// Whose stretches are not in memory.
    pub to_helper: Gives,
    /// Whose answers are sent.
    pub to_read: Gives,
}

struct Data<'a> {
    station: Station<'a>,
    poll: Poll,
    ends: Ends,
    residents: Residents,
    /// Connections that used up their turn.
    again: Vec<Token>,
    /// What rested here has been handed over.
    vacated: bool,
}

/// What a connection does after its turn.
enum Next {
    /// It takes another turn after the others.
    Again,
    /// It waits for the read helper.
    Page,
    /// It waits for its peer to take more.
    Wait,
    /// It is done here, and waits for this.
    Leave(Interest),
}

/// The life of the data stage.
///
/// # Errors
/// What makes waiting impossible.
pub(super) fn run(pool: &Pool, ends: Ends) -> Result<(), Errno> {
    let (residents, again) = (Residents::default(), Vec::new());
    let mut stage = Data { station: Station::new(pool), poll: Poll::new()?, ends, residents, again, vacated: false };
    pool.bells.data.hang_up(&stage.poll)?;
    while !pool.is_over() {
        stage.wait()?;
        stage.station.begin();
        stage.take_parcels();
        for index in 0..stage.poll.event_count() {
            let token = stage.poll.event(index).token;
            if token != BELL {
                stage.go_on_with(token);
            }
        }
        stage.go_on();
        pool.shared.seat(pool.index).show_slow(stage.residents.count());
        if pool.shared.control.is_handing_over() && !stage.vacated {
            stage.vacated = true;
            stage.residents.vacate(&stage.station);
        }
        stage.ends.to_read.deliver();
        stage.ends.to_helper.deliver();
    }
    Ok(())
}

impl Data<'_> {
    fn wait(&mut self) -> Result<(), Errno> {
        let Data { station, poll, ends, residents, again, vacated } = self;
        let (pool, now) = (station.pool, station.desk.now);
        let look_ms = residents.next_look().map(|at| at.since(now) + 1);
        let timeout_ms = look_ms.into_iter().chain(station.flush_ms()).min();
        pool.bells.data.poll(poll, Sleep::Light, timeout_ms, || {
            let arrived = !(ends.from_header.is_empty() && ends.from_helper.is_empty());
            let settled = ends.to_helper.is_settled() && ends.to_read.is_settled();
            let leaves = pool.shared.control.is_handing_over() && !*vacated;
            arrived || pool.is_over() || !settled || !again.is_empty() || leaves
        })
    }

    fn take_parcels(&mut self) {
        while let Some(parcel) = self.ends.from_helper.take() {
            self.drive(parcel);
        }
        while let Some(parcel) = self.ends.from_header.take() {
            self.drive(parcel);
        }
    }

    fn go_on(&mut self) {
        for token in std::mem::take(&mut self.again) {
            self.go_on_with(token);
        }
        let now = self.station.desk.now;
        for token in self.residents.expired(now, &self.station.pool.shared.limits) {
            if let Some(mut parcel) = self.residents.leave(token) {
                self.station.work_on(&mut parcel, |parcel, _| parcel.slot.connection.handle_timeout(now));
                self.drive(parcel);
            }
        }
        self.station.desk.flush_if_due();
    }

    fn go_on_with(&mut self, token: Token) {
        if let Some(parcel) = self.residents.leave(token) {
            self.drive(parcel);
        }
    }

    fn drive(&mut self, parcel: Box<Parcel>) {
        let Some(mut parcel) = self.station.keep(parcel) else { return };
        // Room may have been made while it was elsewhere, and that event was for nobody.
        parcel.slot.writable = true;
        let next = self.station.work_on(&mut parcel, turn);
        let token = parcel.token();
        match next {
            Next::Leave(interest) => send_home(&self.station, parcel, interest, &mut self.ends.to_read),
            Next::Page => {
                Counters::count(&self.station.pool.shared.abilities.counters.helper_jobs);
                self.ends.to_helper.put(parcel, Urgency::Now);
            }
            Next::Again => {
                self.again.push(token);
                self.residents.settle(parcel, &self.station.pool.shared.limits);
            }
            Next::Wait => {
                if !parcel.sender_registered {
                    parcel.sender_registered = self.poll.add_sender(parcel.slot.socket.as_fd(), token).is_ok();
                }
                if parcel.sender_registered {
                    self.residents.settle(parcel, &self.station.pool.shared.limits);
                } else {
                    // It cannot be waited for.
                    self.station.work_on(&mut parcel, |parcel, _| parcel.slot.connection.handle_broken());
                    send_home(&self.station, parcel, Interest::Close, &mut self.ends.to_read);
                }
            }
        }
    }
}

/// Reads and sends as far as can be without waiting, within a turn.
fn turn(parcel: &mut Parcel, desk: &mut Desk<'_>) -> Next {
    let mut bytes_left = TURN_BYTES;
    loop {
        parcel.take_needs(desk);
        let reads = make_ready(parcel, desk);
        let sent = parcel.transmit(desk);
        bytes_left = bytes_left.saturating_sub(sent);
        let interest = parcel.slot.connection.interest();
        match interest {
            Interest::Close => return Next::Leave(interest),
            _ if parcel.reading.is_some() && !reads => return Next::Page,
            Interest::Send if !parcel.slot.writable => return Next::Wait,
            Interest::Send | Interest::Done if bytes_left == 0 => return Next::Again,
            Interest::Send => {}
            Interest::Done if sent > 0 => {}
            Interest::Done | Interest::Receive | Interest::Linger => return Next::Leave(interest),
        }
    }
}

/// Tells the core of the stretch that is wanted, if it is in memory or will never be. False if it has to be read.
fn make_ready(parcel: &mut Parcel, desk: &Desk<'_>) -> bool {
    let Some(reading) = parcel.reading.take() else { return true };
    let done = match (reading.paged_in, &reading.stretch.representation.file) {
        (Some(false), _) | (_, None) => Done::Failed,
        _ if !reading.stretch.is_unchanged() => Done::Failed,
        (Some(true), _) => Done::Ready(reading.stretch.quantum()),
        (None, Some(_)) => match reading.stretch.in_memory(desk.shared) {
            Some(bytes) => Done::Ready(bytes),
            None => {
                parcel.reading = Some(reading);
                return false;
            }
        },
    };
    let Reading { exchange, .. } = reading;
    parcel.slot.connection.handle_done(exchange, done, desk.now);
    true
}
