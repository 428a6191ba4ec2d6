//! Content that is kept until all of it has arrived, and only then sent to the application.
//!
//! Owns: [`ContentBuffer`], and what a [`Gateway`] does with it. Guarantees: an application is asked when the content
//! is whole, and is told its length; content can be sent again; memory is bounded by what the route says, and a piece.
//! Steps that write to the file or wait for it say so before ([`ContentBuffer::may_block`]): they are the executor's.
//!
//! ```text
//!  Arriving in memory --too much--> Arriving in a file --the end--> Whole --pieces--> sent --asked again--> Whole
//!         |                                                           ^
//!         +--the end--------------------------------------------------+
//! ```

use lamna_config::gateway::{BufferSettings, GatewayProtocol};
use lamna_io::spool_file::SpoolFile;
use lamna_io::{Blocked, Wait};
use lamna_policy::upstream::retry::Retries;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::program::{Holds, Input, StepResult};
use lamna_proto::gateway::RequestContent;
use lamna_proto::gateway::fastcgi::add_parameter;
use lamna_proto::gateway::http1::add_length;
use lamna_proto::gateway::{scgi, uwsgi};
use rustix::io::Errno;

use super::progress::{Told, Upload};
use super::{Gateway, State};
use crate::gateway::report;
use crate::gateway::spooled::{Full, SpoolShare};

/// Content of one request.
#[derive(Debug)]
pub(super) struct ContentBuffer {
    settings: BufferSettings,
    /// Content that is not in the file; later room to read from it.
    memory: Vec<u8>,
    file: Option<SpoolFile>,
    /// The bytes of the file, as they are counted.
    spooled: SpoolShare,
    is_whole: bool,
    /// Bytes that have been given to the connection that is used.
    pub(super) sent: u64,
    /// The end has been given to it, or it takes no more.
    has_ended: bool,
    /// The file has to be waited for.
    awaits_disk: bool,
    /// Why it cannot be read.
    failed: Option<Errno>,
}

/// Why content is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unkept {
    /// It cannot be, or is too long.
    Failed(Errno),
    /// Files take as much as they may.
    Full,
}

impl From<Errno> for Unkept {
    fn from(errno: Errno) -> Unkept {
        Unkept::Failed(errno)
    }
}

impl From<Full> for Unkept {
    fn from(Full: Full) -> Unkept {
        Unkept::Full
    }
}

/// Bytes that are read and sent at once, and gathered for one write: a step elsewhere costs some 10 microseconds.
const PIECE_BYTES: usize = 64 * 1024;

impl ContentBuffer {
    pub(super) fn new(settings: BufferSettings, spooled: SpoolShare) -> ContentBuffer {
        ContentBuffer {
            settings,
            memory: Vec::new(),
            file: None,
            spooled,
            is_whole: false,
            sent: 0,
            has_ended: false,
            awaits_disk: false,
            failed: None,
        }
    }

    /// Its memory and descriptors.
    pub(super) fn holds(&self) -> Holds {
        Holds { bytes: self.memory.capacity(), descriptors: usize::from(self.file.is_some()) }
    }

    /// Whether the next step may wait for the disk.
    pub(super) fn may_block(&self) -> bool {
        if self.is_whole { self.awaits_disk } else { self.file.is_some() || self.is_over_bound() }
    }

    fn is_over_bound(&self) -> bool {
        self.memory.len() as u64 > self.settings.memory_bytes
    }

    pub(super) fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(self.memory.len() as u64, SpoolFile::bytes)
    }

    /// Keeps a piece for the step that writes. Whether there was room.
    pub(super) fn gather(&mut self, content: &[u8]) -> bool {
        let has_room = self.file.is_some() && !self.is_whole && self.memory.len() + content.len() <= PIECE_BYTES;
        if has_room {
            self.memory.extend_from_slice(content);
        }
        has_room
    }

    fn take(&mut self, content: &[u8], is_last: bool) -> Result<(), Unkept> {
        let kept = self.file.as_ref().map_or(0, SpoolFile::bytes) + self.memory.len() as u64;
        if kept + content.len() as u64 > self.settings.bytes_max {
            return Err(Unkept::Failed(Errno::FBIG));
        }
        match self.may_block() {
            false => self.memory.extend_from_slice(content),
            true => {
                self.spooled.add((self.memory.len() + content.len()) as u64)?;
                let file = match &mut self.file {
                    Some(file) => file,
                    None => self.file.insert(SpoolFile::create(&self.settings.directory)?),
                };
                file.write(&self.memory)?;
                self.memory.clear();
                file.write(content)?;
            }
        }
        self.is_whole = is_last;
        Ok(())
    }

    /// It is sent from its beginning.
    pub(super) fn rewind(&mut self) {
        (self.sent, self.has_ended, self.awaits_disk) = (0, false, false);
    }

    /// The connection that is used takes no more.
    pub(super) fn stop(&mut self) {
        (self.has_ended, self.awaits_disk) = (true, false);
    }

    /// All has been given to it. The room to read is not held while the application thinks.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        if self.file.is_some() {
            self.memory = Vec::new();
        }
    }

    /// Whether there is something to be sent.
    pub(super) fn has_left(&self) -> bool {
        self.is_whole && !self.has_ended
    }

    /// The next piece, if there is one at once; empty at the end.
    pub(super) fn next(&mut self, wait: Wait) -> Option<&[u8]> {
        let left = (self.bytes() - self.sent).min(PIECE_BYTES as u64) as usize;
        let Some(file) = &self.file else {
            let at = self.sent as usize;
            self.sent += left as u64;
            return Some(&self.memory[at..at + left]);
        };
        self.memory.resize(left, 0);
        let read = if left == 0 { Ok(0) } else { file.read(&mut self.memory, self.sent, wait) };
        self.awaits_disk = matches!(read, Err(Blocked::Disk));
        match read {
            Ok(0) if left > 0 => self.failed = Some(Errno::IO),
            Ok(bytes) => {
                self.sent += bytes as u64;
                return Some(&self.memory[..bytes]);
            }
            Err(Blocked::Disk) => {}
            Err(Blocked::Failed(errno)) => self.failed = Some(errno),
        }
        None
    }
}

const FULL: &str = "As much content of requests is kept as may be. Please try again in a moment.";

impl Gateway {
    /// Keeps content as long as not all of it is there. What comes of the step, unless the application can be asked.
    pub(super) fn keep(&mut self, input: &Input<'_>) -> Option<StepResult> {
        let buffer = self.buffer.as_mut().filter(|buffer| !buffer.is_whole)?;
        match buffer.take(input.content, input.is_last) {
            Ok(()) => {}
            Err(Unkept::Failed(errno)) => return Some(self.refuse_content(errno)),
            Err(Unkept::Full) => return Some(self.page(503, FULL)),
        }
        if !input.is_last {
            return Some(StepResult::Continue);
        }
        let bytes = buffer.bytes();
        let is_announced = self.content != RequestContent::Buffered;
        self.begin_sized(bytes, is_announced);
        None
    }

    /// Waits for what says whether there is content, where the application has to know its length and the client does
    /// not say it. What comes of the step, unless it is known that there is none.
    pub(super) fn lacks_length(&mut self, input: &Input<'_>) -> Option<StepResult> {
        if self.content != RequestContent::Streamed || !self.group.settings.protocol.has_variables() {
            return None;
        }
        if !input.content.is_empty() {
            self.state = State::Over;
            return Some(self.page(411, Refusal::LengthRequired.cause()));
        }
        if !input.is_last {
            return Some(StepResult::Continue);
        }
        self.begin_sized(0, false);
        None
    }

    /// The request begins: all of its content is there, and so long. `is_announced`: its head says that already.
    fn begin_sized(&mut self, bytes: u64, is_announced: bool) {
        match self.group.settings.protocol {
            _ if is_announced => {}
            GatewayProtocol::Http => add_length(&mut self.head, bytes),
            GatewayProtocol::FastCgi => {
                add_parameter(b"CONTENT_LENGTH", bytes.to_string().as_bytes(), &mut self.head);
            }
            GatewayProtocol::Scgi => scgi::set_length(bytes, &mut self.head),
            GatewayProtocol::Uwsgi => {
                uwsgi::add_variable(b"CONTENT_LENGTH", bytes.to_string().as_bytes(), &mut self.head);
            }
        }
        self.content = RequestContent::Sized(bytes);
        self.upload = Upload::Whole;
        self.begin_request();
    }

    /// Which requests may be tried again: buffered content can be sent again, and none can as well.
    pub(super) fn retries_of(&self) -> Retries {
        let has_none = matches!(self.content, RequestContent::None | RequestContent::Sized(0));
        if has_none || self.buffer.is_some() { Retries::Idempotent } else { Retries::Safe }
    }

    /// The client's answer if buffered content cannot be read, which is no fault of the application's.
    pub(super) fn unreadable(&mut self) -> Option<StepResult> {
        let errno = self.buffer.as_mut()?.failed.take()?;
        Some(if self.told == Told::Head { StepResult::Failed } else { self.refuse_content(errno) })
    }

    /// Whether buffered content waits for the disk.
    pub(super) fn awaits_disk(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.awaits_disk)
    }

    /// Content cannot be kept, or not be read.
    fn refuse_content(&mut self, errno: Errno) -> StepResult {
        let (status, cause) = match errno {
            Errno::NOSPC | Errno::DQUOT => (507, "There is no room left for the content of the request."),
            Errno::FBIG => (413, "The content of the request is larger than the server keeps."),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
                (503, "The server is out of descriptors or memory for a moment.")
            }
            _ => (500, "The server cannot keep the content of the request."),
        };
        let directory = self.buffer.as_ref().map(|buffer| buffer.settings.directory.display().to_string());
        // What is too large is the client's business.
        if errno != Errno::FBIG {
            report::not_kept((&self.site, &self.called), &directory.unwrap_or_default(), errno);
        }
        self.page(status, cause)
    }
}
