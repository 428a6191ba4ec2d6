//! Sockets that the event loop of a thread waits for again and again: each is registered with its epoll set once,
//! edge-triggered, in place of once for each wait.
//!
//! Owns: [`Watch`], the state of one such socket, and which loop this thread has. Guarantees: a waiter is told of what
//! is there, however it came, as if the registration were level-triggered; a socket is registered with one loop at a
//! time; a socket with a number that another one had is not taken for that. Does not own sockets, and does not wait.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::event::epoll;
use rustix::io::Errno;

use super::wait::{Awaited, Event, Token, data};

thread_local! {
    static LOOP: RefCell<Option<Loop>> = const { RefCell::new(None) };
}

/// The event loop of a thread.
struct Loop {
    epoll: Arc<OwnedFd>,
    /// The loop's token for a socket, by its number.
    name: fn(u32) -> Token,
    /// By number.
    watched: Vec<Option<Arc<Watch>>>,
}

/// A loop's state of a socket. The socket's owner keeps it, and calls [`Watch::end`] before the socket is closed.
#[derive(Debug)]
pub struct Watch {
    epoll: Arc<OwnedFd>,
    /// Something has come since the socket was last received from.
    has_more: AtomicBool,
    /// The peer has closed its side, or the connection failed: that stays to be received.
    has_ended: AtomicBool,
    /// Registered for room as well, which is told whenever there is some.
    awaits_room: AtomicBool,
    is_over: AtomicBool,
}

/// This thread has a loop as long as this is kept.
#[derive(Debug)]
pub struct Watching(PhantomData<*const ()>);

/// Has sockets of this thread watched with the set `epoll`, whose events have these names.
///
/// # Errors
/// No descriptors.
pub fn begin(epoll: BorrowedFd<'_>, name: fn(u32) -> Token) -> Result<Watching, Errno> {
    let epoll = Arc::new(rustix::io::fcntl_dupfd_cloexec(epoll, 0)?);
    LOOP.set(Some(Loop { epoll, name, watched: Vec::new() }));
    Ok(Watching(PhantomData))
}

impl Drop for Watching {
    fn drop(&mut self) {
        LOOP.set(None);
    }
}

/// An event has come for the socket of this number.
pub fn handle_event(number: u32, event: &Event) {
    LOOP.with_borrow(|here| {
        let Some(watch) = here.as_ref().and_then(|here| here.find(number)) else { return };
        if event.readable {
            watch.has_more.store(true, Relaxed);
        }
        if event.ending {
            watch.has_ended.store(true, Relaxed);
        }
    });
}

/// Has an event reported of what `socket` waits for, or of what is there already, if it is watched here. Whether it is:
/// one system call, and none where nothing has come since it was last received from.
///
/// # Errors
/// None that a socket that is open can cause.
pub fn await_again(socket: BorrowedFd<'_>, awaited: Awaited) -> Result<bool, Errno> {
    let number = socket.as_raw_fd() as u32;
    LOOP.with_borrow(|here| {
        let Some(here) = here else { return Ok(false) };
        let Some(watch) = here.find(number) else { return Ok(false) };
        let is_as_it_was = watch.awaits_room.swap(awaited.writable, Relaxed) == awaited.writable;
        if is_as_it_was && !awaited.writable && watch.is_silent() {
            return Ok(true);
        }
        epoll::modify(&here.epoll, socket, data((here.name)(number)), flags(awaited.writable)).map(|()| true)
    })
}

impl Loop {
    fn find(&self, number: u32) -> Option<&Arc<Watch>> {
        self.watched.get(number as usize)?.as_ref().filter(|watch| !watch.is_over.load(Acquire))
    }

    /// Registers `socket`.
    fn watch(&mut self, socket: BorrowedFd<'_>) -> Result<Arc<Watch>, Errno> {
        let number = socket.as_raw_fd() as u32;
        let name = data((self.name)(number));
        match epoll::add(&self.epoll, socket, name, flags(false)) {
            // It has been waited for once.
            Err(Errno::EXIST) => epoll::modify(&self.epoll, socket, name, flags(false))?,
            added => added?,
        }
        let watch = Arc::new(Watch {
            epoll: self.epoll.clone(),
            has_more: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            awaits_room: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let index = number as usize;
        if index >= self.watched.len() {
            self.watched.resize(index + 1, None);
        }
        self.watched[index] = Some(watch.clone());
        Ok(watch)
    }
}

impl Watch {
    /// Has the loop of this thread watch `socket`, and no other one that has watched it `before`. Where that cannot be,
    /// it is waited for as other sockets are.
    pub fn begin(socket: BorrowedFd<'_>, before: Option<Arc<Watch>>) -> Option<Arc<Watch>> {
        LOOP.with_borrow_mut(|here| {
            let Some(here) = here else { return before };
            if let Some(before) = before {
                if Arc::ptr_eq(&before.epoll, &here.epoll) {
                    return Some(before);
                }
                before.end();
                // It fails if that loop has ended, and has no sockets.
                let _ = epoll::delete(&before.epoll, socket);
            }
            here.watch(socket).ok()
        })
    }

    /// The socket is about to be closed.
    pub fn end(&self) {
        self.is_over.store(true, Release);
    }

    /// Whether the loop of this thread watches it.
    pub fn is_here(&self) -> bool {
        LOOP.with_borrow(|here| here.as_ref().is_some_and(|here| Arc::ptr_eq(&here.epoll, &self.epoll)))
    }

    /// Whether nothing is there to be received, as far as events have told.
    pub fn is_silent(&self) -> bool {
        !self.has_more.load(Relaxed) && !self.has_ended.load(Relaxed)
    }

    /// It is about to be received from.
    pub fn begin_receiving(&self) {
        self.has_more.store(false, Relaxed);
    }

    /// It was received from, and what came has filled all the room that there was: there may be more.
    pub fn note_filled(&self) {
        self.has_more.store(true, Relaxed);
    }
}

fn flags(with_room: bool) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    flags.set(epoll::EventFlags::OUT, with_room);
    flags
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::wait::Poll;

    const READABLE: Awaited = Awaited { readable: true, writable: false };

    fn name(number: u32) -> Token {
        Token { index: number, generation: 9 }
    }

    /// The reports about sockets, without waiting.
    fn told(poll: &mut Poll) -> Vec<(bool, bool)> {
        poll.wait(Some(0)).unwrap();
        let events: Vec<Event> = (0..poll.event_count()).map(|index| poll.event(index)).collect();
        events.iter().for_each(|event| handle_event(event.token.index, event));
        events.iter().map(|event| (event.readable, event.ending)).collect()
    }

    fn receive(socket: &UnixStream, watch: &Watch, room: usize) -> usize {
        watch.begin_receiving();
        let received = rustix::io::read(socket, &mut vec![0; room]).unwrap();
        if received == room {
            watch.note_filled();
        }
        received
    }

    #[test]
    fn who_waits_is_told_of_what_came_before_and_of_what_was_left() {
        let mut poll = Poll::new().unwrap();
        let _here = begin(poll.as_fd(), name).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let watch = Watch::begin(ours.as_fd(), None).unwrap();
        assert!(watch.is_here() && watch.is_silent() && told(&mut poll).is_empty());
        theirs.write_all(b"1234").unwrap();
        assert_eq!((told(&mut poll), watch.is_silent()), (vec![(true, false)], false));
        assert!(told(&mut poll).is_empty(), "once");
        assert!(await_again(ours.as_fd(), READABLE).unwrap());
        assert_eq!(told(&mut poll), [(true, false)], "nobody has received it");
        assert_eq!(receive(&ours, &watch, 3), 3);
        assert!(await_again(ours.as_fd(), READABLE).unwrap());
        assert_eq!(told(&mut poll), [(true, false)], "there was more");
        assert_eq!((receive(&ours, &watch, 3), watch.is_silent()), (1, true));
        assert!(await_again(ours.as_fd(), READABLE).unwrap());
        assert!(told(&mut poll).is_empty());
    }

    #[test]
    fn an_end_that_came_with_the_last_bytes_is_told_behind_them() {
        let mut poll = Poll::new().unwrap();
        let _here = begin(poll.as_fd(), name).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let watch = Watch::begin(ours.as_fd(), None).unwrap();
        theirs.write_all(b"1").unwrap();
        drop(theirs);
        assert_eq!(told(&mut poll), [(true, true)]);
        assert_eq!((receive(&ours, &watch, 3), watch.is_silent()), (1, false));
        assert!(await_again(ours.as_fd(), READABLE).unwrap());
        assert_eq!(told(&mut poll), [(true, true)]);
        assert_eq!(receive(&ours, &watch, 3), 0);
    }

    #[test]
    fn room_is_told_as_long_as_it_is_waited_for() {
        let mut poll = Poll::new().unwrap();
        let _here = begin(poll.as_fd(), name).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let _watch = Watch::begin(ours.as_fd(), None).unwrap();
        assert!(await_again(ours.as_fd(), Awaited { readable: true, writable: true }).unwrap());
        assert_eq!(told(&mut poll), [(false, false)], "there is some");
        assert!(await_again(ours.as_fd(), READABLE).unwrap() && told(&mut poll).is_empty());
        theirs.write_all(b"1").unwrap();
        assert_eq!(told(&mut poll), [(true, false)]);
    }

    #[test]
    fn a_socket_that_another_loop_watches_from_now_on_is_told_of_there_alone() {
        let mut before = Poll::new().unwrap();
        let here = begin(before.as_fd(), name).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let watch = Watch::begin(ours.as_fd(), None).unwrap();
        drop(here);
        assert!(!watch.is_here() && !await_again(ours.as_fd(), READABLE).unwrap(), "this thread has no loop");
        let mut poll = Poll::new().unwrap();
        let _here = begin(poll.as_fd(), name).unwrap();
        assert!(!await_again(ours.as_fd(), READABLE).unwrap(), "and this one does not know it");
        let watch = Watch::begin(ours.as_fd(), Some(watch)).unwrap();
        assert!(watch.is_here() && Arc::ptr_eq(&watch, &Watch::begin(ours.as_fd(), Some(watch.clone())).unwrap()));
        theirs.write_all(b"1").unwrap();
        before.wait(Some(0)).unwrap();
        assert_eq!((before.event_count(), told(&mut poll)), (0, vec![(true, false)]));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_socket() {
        let poll = Poll::new().unwrap();
        let _here = begin(poll.as_fd(), name).unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let watch = Watch::begin(ours.as_fd(), None).unwrap();
        watch.end();
        assert!(!await_again(ours.as_fd(), READABLE).unwrap());
    }
}
