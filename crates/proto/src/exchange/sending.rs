//! An answer that is sent while a program makes it: what of it has been given, and what of that has not been handed
//! over.
//!
//! Owns: [`Sending`], for every version of HTTP. Guarantees: what is beyond the length that was announced is not handed
//! over, and the writer is told so, as of what is missing: an answer that was broken off is never taken for whole,
//! if its framing can say so. No more is kept than was given at once, and a part that was given too early. Does not
//! write: each version frames what is here.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::given::ContentBuffer;
use crate::message::Status;

/// How the end of the content is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none, because of the method or the status.
    Nothing,
    /// So much is still to be given.
    Length(u64),
    /// It is told where it is: by the last chunk of HTTP/1.1, by a flag of a frame of HTTP/2.
    Told,
    /// It ends with the connection.
    Close,
    /// It is another protocol's, and ends with the connection.
    Tunnel,
}

/// The state of an answer once a part has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// More follows.
    Part,
    /// Whole.
    Whole,
    /// At its end, with less than was announced.
    Short,
    /// At its announced end, behind which more was given.
    Excess,
}

/// An answer that has begun.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) status: Status,
    framing: Framing,
    /// Whether the client reads trailer fields.
    takes_trailers: bool,
    /// The content given so far, and how much of it has not been handed over.
    queue: VecDeque<(Arc<dyn ContentBuffer>, Range<usize>)>,
    /// The first of it is sent from where it is, and what comes before it has been written.
    is_in_place: bool,
    /// Nothing more is given, but for these trailer fields.
    end: Option<Vec<u8>>,
    /// It is not whole, or more was given than it has room for: what it is sent on ends behind it.
    is_cut: bool,
    /// Bytes of content handed over so far; for the log.
    content_bytes: u64,
}

// What is given.
impl Sending {
    pub(crate) fn new(status: Status, framing: Framing, takes_trailers: bool) -> Sending {
        Sending {
            status,
            framing,
            takes_trailers,
            queue: VecDeque::new(),
            is_in_place: false,
            end: (framing == Framing::Nothing).then(Vec::new),
            is_cut: false,
            content_bytes: 0,
        }
    }

    /// More content, and the end with its trailer fields, if they are there.
    pub(crate) fn give(&mut self, content: Option<Arc<dyn ContentBuffer>>, end: Option<Vec<u8>>) -> Given {
        if content.is_some_and(|content| !self.add(content)) {
            self.end = Some(Vec::new());
            return Given::Excess;
        }
        match (end, self.framing) {
            _ if self.is_ended() => Given::Whole,
            (None, _) => Given::Part,
            (Some(_), Framing::Length(1..)) => Given::Short,
            (Some(trailers), _) => {
                self.end = Some(trailers);
                Given::Whole
            }
        }
    }

    /// Keeps content, as much of it as was announced. False if that is not all of it.
    fn add(&mut self, content: Arc<dyn ContentBuffer>) -> bool {
        let given = content.bytes().len();
        let length = match &mut self.framing {
            Framing::Nothing => return true,
            Framing::Told | Framing::Close | Framing::Tunnel => given,
            Framing::Length(left) => {
                let length = given.min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= length as u64;
                length
            }
        };
        if length > 0 {
            self.queue.push_back((content, 0..length));
        }
        length == given
    }

    /// It is broken off behind what has been given.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether all of it has been given.
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some()
    }
}

// What is handed over.
impl Sending {
    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// Status and content so far.
    pub(crate) fn begun(&self) -> (u16, u64) {
        (self.status.0, self.content_bytes)
    }

    /// The next of the content, as far as it is in one place.
    pub(crate) fn front(&self) -> Option<&[u8]> {
        self.queue.front().map(|(content, range)| &content.bytes()[range.clone()])
    }

    /// Copies the next content to `output`, at most so much. Returns how much that was.
    pub(crate) fn copy_front(&mut self, bytes_max: usize, output: &mut Vec<u8>) -> usize {
        let Some(front) = self.front() else { return 0 };
        let length = front.len().min(bytes_max);
        output.extend_from_slice(&front[..length]);
        self.take(length as u64);
        length
    }

    /// The next content is sent from where it is, from now on until [`Sending::end_in_place`] says that it has been.
    pub(crate) fn begin_in_place(&mut self) {
        self.is_in_place = true;
    }

    /// Whether content that was sent from where it is has been sent, and is taken out.
    pub(crate) fn end_in_place(&mut self) -> bool {
        let is_sent = self.is_in_place && self.front().is_some_and(<[u8]>::is_empty);
        if is_sent {
            self.is_in_place = false;
            self.queue.pop_front();
        }
        is_sent
    }

    /// Content that is sent from where it is: what holds it, and what of that is to be sent.
    pub(crate) fn in_place(&self) -> Option<(&Arc<dyn ContentBuffer>, Range<usize>)> {
        let (content, range) = self.queue.front().filter(|(_, range)| self.is_in_place && !range.is_empty())?;
        Some((content, range.clone()))
    }

    /// `bytes` of the next content have been handed over: no more than there are.
    pub(crate) fn take(&mut self, bytes: u64) {
        let Some((_, range)) = self.queue.front_mut() else { return };
        range.start += bytes as usize;
        self.content_bytes += bytes;
        if range.start == range.end && !self.is_in_place {
            self.queue.pop_front();
        }
    }

    /// Whether other content follows the next.
    pub(crate) fn has_behind(&self) -> bool {
        self.queue.len() > 1
    }

    /// Whether all has been handed over that has been given.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The trailer fields, if nothing else is left of it.
    pub(crate) fn trailers(&self) -> Option<&[u8]> {
        let trailers = self.end.as_deref().filter(|_| self.is_empty())?;
        Some(if self.takes_trailers { trailers } else { b"" })
    }

    /// Bytes of content that have been given and not been handed over.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queue.iter().map(|(_, range)| range.len() as u64).sum()
    }

    /// Bytes of it that are still to be sent. Of one whose length is not known, what has been sent stands for what is
    /// still to be given.
    pub(crate) fn remaining_bytes(&self) -> u64 {
        let left = if let Framing::Length(left) = self.framing { left } else { self.content_bytes };
        self.queued_bytes() + left
    }

    /// Checks that its parts agree.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        for (at, (content, range)) in self.queue.iter().enumerate() {
            let is_within = range.start <= range.end && range.end <= content.bytes().len();
            assert!(is_within, "{range:?} is kept of {} bytes", content.bytes().len());
            let may_be_empty = at == 0 && self.is_in_place;
            assert!(may_be_empty || !range.is_empty(), "a part is kept that has been handed over");
        }
        assert!(!self.is_in_place || !self.is_empty(), "nothing is sent from where it is");
        let has_no_content = self.framing == Framing::Nothing;
        assert!(!has_no_content || self.is_ended() && self.is_empty(), "there is content where none can be");
    }

    /// Bytes of memory that it takes, with what has been given.
    pub(crate) fn memory_bytes(&self) -> usize {
        let given: usize = self.queue.iter().map(|(content, _)| content.own_bytes()).sum();
        size_of::<Sending>() + self.queue.capacity() * size_of::<(Arc<dyn ContentBuffer>, Range<usize>)>() + given
    }
}
