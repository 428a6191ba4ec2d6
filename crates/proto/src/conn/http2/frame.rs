//! Frames (RFC 9113 4 and 6): their heads, the payloads that are small, and writing them.
//!
//! Owns: the syntax of frames and the codes of errors. Guarantees: a frame that is not in its form is a [`Fault`] of
//! the extent that RFC 9113 gives it. Does not know streams, and does not read the payloads that arrive in pieces:
//! content and header blocks.

/// Bytes of a frame's head.
pub(crate) const HEAD_BYTES: usize = 9;
/// Bytes of the largest payload that we accept and write: the least that a peer can allow (RFC 9113 6.5.2).
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16_384;
/// The client's connection preface (RFC 9113 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest window (RFC 9113 6.9.1).
pub(crate) const WINDOW_MAX: i64 = (1 << 31) - 1;

/// END_STREAM of DATA and HEADERS.
pub(crate) const END_STREAM: u8 = 0x1;
/// ACK of SETTINGS and PING.
pub(crate) const ACK: u8 = 0x1;
/// END_HEADERS of HEADERS and CONTINUATION.
pub(crate) const END_HEADERS: u8 = 0x4;
/// PADDED of DATA and HEADERS.
pub(crate) const PADDED: u8 = 0x8;
/// PRIORITY of HEADERS.
pub(crate) const PRIORITY: u8 = 0x20;

/// RFC 9113 6, and PRIORITY_UPDATE of RFC 9218 7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Headers,
    Priority,
    ResetStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    PriorityUpdate,
    /// To be ignored (RFC 9113 4.1).
    Unknown,
}

impl Kind {
    fn of(number: u8) -> Kind {
        use Kind::*;
        const KNOWN: [Kind; 10] =
            [Data, Headers, Priority, ResetStream, Settings, PushPromise, Ping, GoAway, WindowUpdate, Continuation];
        match number {
            0x10 => PriorityUpdate,
            _ => KNOWN.get(usize::from(number)).copied().unwrap_or(Unknown),
        }
    }

    fn number(self) -> u8 {
        match self {
            Kind::PriorityUpdate => 0x10,
            Kind::Unknown => 0xff,
            known => known as u8,
        }
    }
}

/// RFC 9113 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ErrorCode {
    NoError = 0x0,
    Protocol = 0x1,
    Internal = 0x2,
    FlowControl = 0x3,
    SettingsTimeout = 0x4,
    StreamClosed = 0x5,
    FrameSize = 0x6,
    RefusedStream = 0x7,
    Cancel = 0x8,
    Compression = 0x9,
    EnhanceYourCalm = 0xb,
}

/// A fault of the peer, and what ends by it (RFC 9113 5.4). The text is for readers of the GOAWAY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection.
    Connection(ErrorCode, &'static str),
    /// A stream.
    Stream(u32, ErrorCode),
}

pub(crate) fn protocol_error<T>(cause: &'static str) -> Result<T, Fault> {
    Err(Fault::Connection(ErrorCode::Protocol, cause))
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    /// Bytes of the payload.
    pub(crate) length: usize,
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    /// 0 for the connection.
    pub(crate) stream: u32,
}

impl FrameHead {
    pub(crate) fn parse(bytes: &[u8; HEAD_BYTES]) -> FrameHead {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        FrameHead {
            length: u32::from_be_bytes([0, l0, l1, l2]) as usize,
            kind: Kind::of(kind),
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        }
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether a frame of this kind may have this length and belong to this stream. `block` is the stream whose header
    /// block is not complete yet: nothing but what goes on with it may come (RFC 9113 6.10).
    pub(crate) fn check(self, block: Option<u32>) -> Result<(), Fault> {
        use Kind::*;
        match (block, self.kind) {
            (Some(stream), Continuation) if stream == self.stream => {}
            (Some(_), _) => return protocol_error("a header block is not complete"),
            (None, Continuation) => return protocol_error("CONTINUATION without a header block"),
            (None, _) => {}
        }
        if self.length > PAYLOAD_BYTES_MAX {
            return Err(Fault::Connection(ErrorCode::FrameSize, "a frame is larger than SETTINGS_MAX_FRAME_SIZE"));
        }
        match self.kind {
            Data | Headers | Priority | ResetStream | Continuation if self.stream == 0 => {
                return protocol_error("a frame of a stream belongs to none");
            }
            Settings | Ping | GoAway | PriorityUpdate if self.stream != 0 => {
                return protocol_error("a frame of the connection belongs to a stream");
            }
            PushPromise => return protocol_error("a client pushes"),
            _ => {}
        }
        let fits = match self.kind {
            // RFC 9113 6.3: the only one whose length is an error of the stream.
            Priority if self.length != 5 => return Err(Fault::Stream(self.stream, ErrorCode::FrameSize)),
            ResetStream | WindowUpdate => self.length == 4,
            Settings if self.has(ACK) => self.length == 0,
            Settings => self.length.is_multiple_of(SETTING_BYTES),
            Ping => self.length == 8,
            GoAway => self.length >= 8,
            PriorityUpdate => self.length >= 4,
            Data if self.has(PADDED) => self.length >= 1,
            Headers => self.length >= self.prefix_bytes(),
            _ => true,
        };
        if fits { Ok(()) } else { Err(Fault::Connection(ErrorCode::FrameSize, "a frame has the wrong length")) }
    }

    /// Bytes before the content or the block: the length of the padding, and the priority of RFC 7540, which is
    /// deprecated.
    pub(crate) fn prefix_bytes(self) -> usize {
        let priority = self.kind == Kind::Headers && self.has(PRIORITY);
        let padded = matches!(self.kind, Kind::Data | Kind::Headers) && self.has(PADDED);
        usize::from(padded) + if priority { 5 } else { 0 }
    }

    /// Bytes of content or block, and of padding behind them. `prefix` is as long as `prefix_bytes` says.
    pub(crate) fn content_and_padding(self, prefix: &[u8]) -> Result<(usize, usize), Fault> {
        let padding = match prefix.first() {
            Some(&length) if self.has(PADDED) => usize::from(length),
            _ => 0,
        };
        match (self.length - prefix.len()).checked_sub(padding) {
            Some(content) => Ok((content, padding)),
            None => protocol_error("padding is longer than its frame"),
        }
    }

    /// The stream that one depends on, of PRIORITY and of the prefix of HEADERS; it may not be itself (RFC 7540 5.3.1).
    pub(crate) fn check_dependency(self, priority: &[u8]) -> Result<(), Fault> {
        if word(priority) & 0x7fff_ffff == self.stream {
            return Err(Fault::Stream(self.stream, ErrorCode::Protocol));
        }
        Ok(())
    }
}

const SETTING_BYTES: usize = 6;

/// The four bytes at the start of a payload, whose length has been checked.
pub(crate) fn word(payload: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&payload[..4]);
    u32::from_be_bytes(bytes)
}

/// The settings in a payload.
pub(crate) fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    let (settings, _) = payload.as_chunks::<SETTING_BYTES>();
    settings.iter().map(|one| (u16::from_be_bytes([one[0], one[1]]), word(&one[2..])))
}

/// Writes the head of a frame.
pub(crate) fn write_head(out: &mut Vec<u8>, length: usize, kind: Kind, flags: u8, stream: u32) {
    out.extend_from_slice(&head_bytes(length, kind, flags, stream));
}

/// Writes the head of a frame whose payload has been written, into the room that was left for it.
pub(crate) fn write_head_at(room: &mut [u8], length: usize, kind: Kind, flags: u8, stream: u32) {
    room.copy_from_slice(&head_bytes(length, kind, flags, stream));
}

fn head_bytes(length: usize, kind: Kind, flags: u8, stream: u32) -> [u8; HEAD_BYTES] {
    debug_assert!(length <= PAYLOAD_BYTES_MAX, "every peer takes so much");
    let [_, l0, l1, l2] = (length as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    [l0, l1, l2, kind.number(), flags, s0, s1, s2, s3]
}

/// Writes a SETTINGS frame.
pub(crate) fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    write_head(out, settings.len() * SETTING_BYTES, Kind::Settings, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Says that the peer's settings hold.
pub(crate) fn write_settings_ack(out: &mut Vec<u8>) {
    write_head(out, 0, Kind::Settings, ACK, 0);
}

/// Writes a PING frame, or the answer to one.
pub(crate) fn write_ping(out: &mut Vec<u8>, flags: u8, payload: &[u8]) {
    write_head(out, payload.len(), Kind::Ping, flags, 0);
    out.extend_from_slice(payload);
}

/// Writes a WINDOW_UPDATE frame.
pub(crate) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write_head(out, 4, Kind::WindowUpdate, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Writes a RST_STREAM frame.
pub(crate) fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_head(out, 4, Kind::ResetStream, 0, stream);
    out.extend_from_slice(&u32::from(code as u8).to_be_bytes());
}

/// Bytes of a GOAWAY frame without a cause.
pub(crate) const GOAWAY_BYTES: usize = HEAD_BYTES + 8;

/// A GOAWAY frame of an end that is no side's fault.
pub(crate) fn plain_goaway(last: u32) -> [u8; GOAWAY_BYTES] {
    let mut frame = [0; GOAWAY_BYTES];
    write_head_at(&mut frame[..HEAD_BYTES], 8, Kind::GoAway, 0, 0);
    frame[HEAD_BYTES..HEAD_BYTES + 4].copy_from_slice(&last.to_be_bytes());
    frame
}

/// Writes a GOAWAY frame.
pub(crate) fn write_goaway(out: &mut Vec<u8>, last: u32, code: ErrorCode, cause: &str) {
    write_head(out, 8 + cause.len(), Kind::GoAway, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&u32::from(code as u8).to_be_bytes());
    out.extend_from_slice(cause.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(length: usize, kind: Kind, flags: u8, stream: u32) -> FrameHead {
        FrameHead { length, kind, flags, stream }
    }

    #[test]
    fn a_goaway_of_fixed_length_is_one_without_a_cause() {
        let mut written = Vec::new();
        write_goaway(&mut written, 7, ErrorCode::NoError, "");
        assert_eq!(written, plain_goaway(7));
    }

    #[track_caller]
    fn assert_faulty(frame: FrameHead, code: ErrorCode) {
        match frame.check(None) {
            Err(Fault::Connection(found, _) | Fault::Stream(_, found)) => assert_eq!(found, code, "{frame:?}"),
            Ok(()) => panic!("{frame:?}"),
        }
    }

    // RFC 9113 4.2 and 6.
    #[test]
    fn frames_of_the_wrong_length_or_stream_are_refused() {
        for (length, kind, flags, stream, code) in [
            (16_385, Kind::Data, 0, 1, ErrorCode::FrameSize),
            (0, Kind::Data, PADDED, 1, ErrorCode::FrameSize),
            (4, Kind::Headers, PRIORITY, 1, ErrorCode::FrameSize),
            (4, Kind::Priority, 0, 1, ErrorCode::FrameSize),
            (3, Kind::ResetStream, 0, 1, ErrorCode::FrameSize),
            (5, Kind::Settings, 0, 0, ErrorCode::FrameSize),
            (6, Kind::Settings, ACK, 0, ErrorCode::FrameSize),
            (7, Kind::Ping, 0, 0, ErrorCode::FrameSize),
            (7, Kind::GoAway, 0, 0, ErrorCode::FrameSize),
            (5, Kind::WindowUpdate, 0, 0, ErrorCode::FrameSize),
            (3, Kind::PriorityUpdate, 0, 0, ErrorCode::FrameSize),
            (0, Kind::Data, 0, 0, ErrorCode::Protocol),
            (0, Kind::Headers, 0, 0, ErrorCode::Protocol),
            (5, Kind::Priority, 0, 0, ErrorCode::Protocol),
            (4, Kind::ResetStream, 0, 0, ErrorCode::Protocol),
            (0, Kind::Settings, 0, 1, ErrorCode::Protocol),
            (8, Kind::Ping, 0, 1, ErrorCode::Protocol),
            (8, Kind::GoAway, 0, 1, ErrorCode::Protocol),
            (4, Kind::PriorityUpdate, 0, 1, ErrorCode::Protocol),
            (4, Kind::PushPromise, 0, 1, ErrorCode::Protocol),
            (0, Kind::Continuation, 0, 1, ErrorCode::Protocol),
        ] {
            assert_faulty(head(length, kind, flags, stream), code);
        }
        assert_eq!(head(4, Kind::Priority, 0, 1).check(None), Err(Fault::Stream(1, ErrorCode::FrameSize)));
    }

    // RFC 9113 6.10.
    #[test]
    fn nothing_comes_between_the_parts_of_a_header_block() {
        assert!(head(0, Kind::Continuation, 0, 1).check(Some(1)).is_ok());
        for frame in [head(0, Kind::Continuation, 0, 3), head(8, Kind::Ping, 0, 0), head(0, Kind::Unknown, 0, 1)] {
            assert!(frame.check(Some(1)).is_err(), "{frame:?}");
        }
    }

    #[test]
    fn padding_lies_within_its_frame() {
        let frame = head(10, Kind::Headers, PADDED | PRIORITY, 1);
        assert_eq!(frame.prefix_bytes(), 6);
        assert_eq!(frame.content_and_padding(&[4, 0, 0, 0, 0, 0]), Ok((0, 4)));
        assert!(frame.content_and_padding(&[5, 0, 0, 0, 0, 0]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(length in 0..=PAYLOAD_BYTES_MAX, number in 0..=16_u8, flags: u8, stream in 0..1_u32 << 31) {
            let frame = head(length, Kind::of(number), flags, stream);
            prop_assume!(frame.kind != Kind::Unknown);
            let mut out = Vec::new();
            write_head(&mut out, length, frame.kind, flags, stream);
            prop_assert_eq!(FrameHead::parse(out.as_slice().try_into().unwrap()), frame);
        }

        #[test]
        fn any_head_is_a_frame_or_a_fault(bytes: [u8; HEAD_BYTES], block in prop::option::of(1..10_u32), prefix: [u8; 6]) {
            let frame = FrameHead::parse(&bytes);
            if frame.check(block).is_ok() {
                prop_assert!(frame.length <= PAYLOAD_BYTES_MAX);
                if let Ok((content, padding)) = frame.content_and_padding(&prefix[..frame.prefix_bytes()]) {
                    prop_assert_eq!(frame.prefix_bytes() + content + padding, frame.length);
                }
            }
        }
    }
}
