//! Every bound on what a peer may make the server hold or wait for, with its unit and its reason.
//!
//! Owns: the numbers and their defaults. The holder of a resource enforces its bound.

/// Bounds of one connection. All times are measured from the last progress, never over a whole transfer, so that a slow
/// but live peer is not cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request head: request line, fields and the empty line. Browsers stay below 8 KiB; cookies can grow.
    /// 256 to 65,535; also the size of a connection's receive buffer. Requests that wait behind another were in it
    /// together, as nothing is received meanwhile: so the copies of their heads are no longer than that.
    pub head_bytes_max: usize,
    /// Bytes of a request target. Longer ones get 414. Less than `head_bytes_max`.
    pub target_bytes_max: usize,
    /// Header fields of one request. More get 431.
    pub fields_max: usize,
    /// Bytes of request content that are read and discarded before answering; more get 413.
    pub body_bytes_max: u64,
    /// Bytes of chunk extensions and trailer fields of one request (they carry nothing that we use).
    pub chunk_overhead_bytes_max: usize,
    /// Ranges of one request. More are answered with the whole representation (RFC 9110 14.2 allows ignoring them).
    pub ranges_max: usize,
    /// Requests of one connection that may be waiting for their answer; further input stays in the socket.
    pub exchanges_max: usize,
    /// Bytes of content in memory that the answers of one connection may hold while they wait behind another one. What
    /// does not fit is asked for again when it is first in line, and no further request is begun until then. A client
    /// that pipelines small files gets them without another look; one that does not read holds one file, not
    /// `exchanges_max`.
    pub held_bytes_max: u64,
    /// Time for a whole request head to arrive once its first byte has (the one bound over a whole transfer: the head
    /// is at most `head_bytes_max` long, and a byte now and then must not hold a connection).
    pub head_timeout_ms: u32,
    /// Time between two pieces of a request body.
    pub body_timeout_ms: u32,
    /// Bytes of a request body that have to arrive in each second on average, beyond the first `body_timeout_ms`: or a
    /// byte now and then would hold a connection for weeks. What comes faster counts for [`BODY_CREDIT_TIMEOUTS`] times
    /// `body_timeout_ms` at most. 0 for no such bound.
    pub body_rate_min: u32,
    /// Time a persistent connection may be idle between requests.
    pub idle_timeout_ms: u32,
    /// Time in which the peer has to take `send_bytes_min`, or all that there is for it, wherever it is the peer that
    /// is waited for: its socket, its windows of HTTP/2. Nothing that it sends prolongs it.
    pub send_timeout_ms: u32,
    /// Bytes that a peer has to take in each `send_timeout_ms`: or a byte now and then would hold an exchange with an
    /// application. 0: any byte.
    pub send_bytes_min: u32,
    /// Time that a connection closed after an error goes on reading and discarding, so that the peer can read the
    /// answer before a reset reaches it (RFC 9112 9.6).
    pub linger_timeout_ms: u32,
}

/// The part of the cache of a process (`cache_bytes`) that its connections together may fill with what the cache itself
/// does not hold: content that it has let go of, and requests and answers in buffers of their own. Numerator and
/// denominator. The cache shrinks by as much, so that both together stay within its bound. Beyond this part answers
/// hold nothing any more: content is sent from its file, requests that are pipelined are answered one at a time, and
/// listings are refused (503). The last eighth is for what connections add before they are looked at again.
pub const HELD_SHARE_MAX: (u64, u64) = (7, 8);

/// Bytes that a parked connection may hold before they are counted with those of others: a request that has begun to
/// arrive is not worth a write to memory that all workers share.
pub const UNCOUNTED_BYTES_MAX: usize = 4 * 1024;

/// How long a peer may take for content of a file that was read into memory for it: at 256 KiB a second it takes the
/// largest buffer. What it has not taken by then is given back and read again when it takes more, so that those who
/// read slowly do not keep the memory that others need.
pub const READ_CONTENT_TIMEOUT_MS: u32 = 4_000;

/// How long a peer is heard out at most that goes on sending what is not read: an upload that is refused reaches its
/// end, or the client notices that it has been answered. Who sends nothing is heard out for `linger_timeout_ms`.
pub const LINGER_MS_MAX: u32 = 30_000;

/// Streams of a connection of HTTP/2 that may be open at once (SETTINGS_MAX_CONCURRENT_STREAMS). More are refused, and
/// may be tried again. Browsers want 100.
pub const STREAMS_MAX: usize = 128;

/// Bytes of content in memory that the streams of a connection of HTTP/2 may hold together, unless one alone holds
/// more. What does not fit is asked for again when there is room. More than `held_bytes_max`, because streams share a
/// connection by their priorities.
pub const STREAMS_HELD_BYTES_MAX: u64 = 512 * 1024;

/// Streams of a connection that may have content read for them at once: enough to keep a disk busy.
pub const STREAM_READS_MAX: usize = 4;

/// Bytes of a header block as it is sent. One whose fields are too long or too many is answered with 431 if it is no
/// longer than this: it has to be read in full, or those after it could not be.
pub const HEADER_BLOCK_BYTES_MAX: usize = 64 * 1024;

/// Frames that a header block may come in. With frames of 16 KiB four are enough.
pub const HEADER_FRAMES_MAX: u32 = 16;

/// Streams that the peer opens and takes back, or has taken from it for a fault of its own: so many at once, and so
/// many a second. A browser takes back those of a page that is left.
pub const RESETS_BURST: u32 = 1_000;
/// See [`RESETS_BURST`].
pub const RESETS_PER_SECOND: u32 = 33;

/// Those of them that have cost an exchange with an application, or what another program has begun; and requests whose
/// header block stands for much more than was sent. An application has few connections, and finds out late that no
/// client waits any more. A browser has some thirty such requests under way when a page is left.
pub const DROPPED_BURST: u32 = 128;
/// See [`DROPPED_BURST`].
pub const DROPPED_PER_SECOND: u32 = 16;

/// Frames that carry nothing: PING, SETTINGS, priorities, empty DATA, unknown ones, and windows that are opened by a
/// few bytes. So many at once, and so many a second.
pub const IDLE_FRAMES_BURST: u32 = 1_000;
/// See [`IDLE_FRAMES_BURST`].
pub const IDLE_FRAMES_PER_SECOND: u32 = 100;

/// How many streams of a connection of HTTP/2 may wait to be sent for one `send_bytes_min`. Of more the connection has
/// to take as much more in the same time: each holds an answer, perhaps one of an application, and several connections
/// would have to take it, too.
pub const STREAMS_PER_SEND_BYTES_MIN: u64 = 16;

/// Streams of a connection whose windows are not opened in time and that are reset for it. With the next one the
/// connection ends: it could begin as many again and again. A browser has a few, where films are paused.
pub const STALLS_MAX: u32 = 32;

/// Bytes of content below which a frame counts as one that carries nothing, if there was more to send and the peer's
/// windows did not allow it; and of a WINDOW_UPDATE.
pub const TINY_BYTES: u64 = 128;

/// Bytes that a window of ours may grow to: what a peer may send before we say that we have taken it. Content is taken
/// as it comes.
pub const RECEIVE_WINDOW_BYTES_MAX: u32 = 1024 * 1024;

/// Bytes of answers to PING and the like that wait behind a frame whose content is sent from a file. Nothing is
/// received beyond.
pub const BEHIND_BYTES_MAX: usize = 4 * 1024;

/// For how many times `body_timeout_ms` content that came faster than `body_rate_min` pays: so much a client may pause
/// and crawl after a fast beginning. Without a bound a gigabyte in a minute would pay for three weeks.
pub const BODY_CREDIT_TIMEOUTS: u32 = 4;

impl Limits {
    /// The defaults.
    pub const DEFAULT: Limits = {
        Limits {
            head_bytes_max: 16 * 1024,
            target_bytes_max: 8 * 1024,
            fields_max: 100,
            body_bytes_max: 1024 * 1024,
            chunk_overhead_bytes_max: 16 * 1024,
            ranges_max: 32,
            exchanges_max: 8,
            held_bytes_max: 128 * 1024,
            head_timeout_ms: 30_000,
            body_timeout_ms: 30_000,
            body_rate_min: 500,
            idle_timeout_ms: 75_000,
            send_timeout_ms: 60_000,
            send_bytes_min: 16 * 1024,
            linger_timeout_ms: 2_000,
        }
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}
