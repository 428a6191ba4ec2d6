//! Settings (RFC 9113 6.5): what the peer has said, and what we say.
//!
//! Owns: the names of settings and which values they may have. Does not act on them: the connection does.

use super::frame::{self, ErrorCode, Fault, PAYLOAD_BYTES_MAX, WINDOW_MAX, protocol_error};
use crate::limits::{Limits, STREAMS_MAX};

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
/// RFC 8441 3.
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// The most settings of one frame. There are a dozen, and no client says one twice.
pub(super) const ENTRIES_MAX: usize = 32;

/// Bytes of the table by which the peer compresses (RFC 7541), as we announce it: the value that holds without a word.
pub(super) const DECODER_TABLE_BYTES: usize = 4_096;

/// The peer's settings that matter to a server that neither pushes nor sends long heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerSettings {
    /// The size of the table by which we compress.
    pub(super) header_table_size: usize,
    /// The initial window of streams.
    pub(super) initial_window: i64,
}

impl PeerSettings {
    /// The settings until the peer says otherwise.
    pub(super) fn new() -> PeerSettings {
        PeerSettings { header_table_size: 4_096, initial_window: 65_535 }
    }

    /// Takes what the payload of a SETTINGS frame says.
    pub(super) fn apply(&mut self, payload: &[u8]) -> Result<(), Fault> {
        for (name, value) in frame::settings(payload) {
            match name {
                HEADER_TABLE_SIZE => self.header_table_size = value as usize,
                ENABLE_PUSH if value > 1 => return protocol_error("SETTINGS_ENABLE_PUSH is neither 0 nor 1"),
                INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => {
                    return Err(Fault::Connection(ErrorCode::FlowControl, "SETTINGS_INITIAL_WINDOW_SIZE is too large"));
                }
                INITIAL_WINDOW_SIZE => self.initial_window = i64::from(value),
                // Larger frames would only make other streams wait.
                MAX_FRAME_SIZE if !(PAYLOAD_BYTES_MAX as u32..1 << 24).contains(&value) => {
                    return protocol_error("SETTINGS_MAX_FRAME_SIZE is out of its bounds");
                }
                NO_RFC7540_PRIORITIES if value > 1 => {
                    return protocol_error("SETTINGS_NO_RFC7540_PRIORITIES is neither 0 nor 1");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes our own settings, and what the connection's window has beyond the value that holds without a word.
pub(super) fn write_own(out: &mut Vec<u8>, limits: &Limits, offers_tunnels: bool) {
    let settings = [
        (MAX_CONCURRENT_STREAMS, STREAMS_MAX as u32),
        (MAX_HEADER_LIST_SIZE, limits.head_bytes_max as u32),
        (NO_RFC7540_PRIORITIES, 1),
        (ENABLE_CONNECT_PROTOCOL, 1),
    ];
    frame::write_settings(out, &settings[..if offers_tunnels { 4 } else { 3 }]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(settings: &[(u16, u32)]) -> Vec<u8> {
        let mut out = Vec::new();
        frame::write_settings(&mut out, settings);
        out.split_off(frame::HEAD_BYTES)
    }

    // RFC 9113 6.5.2.
    #[test]
    fn values_out_of_their_bounds_end_the_connection() {
        for (name, value, code) in [
            (ENABLE_PUSH, 2, ErrorCode::Protocol),
            (INITIAL_WINDOW_SIZE, 1 << 31, ErrorCode::FlowControl),
            (MAX_FRAME_SIZE, 16_383, ErrorCode::Protocol),
            (MAX_FRAME_SIZE, 1 << 24, ErrorCode::Protocol),
            (NO_RFC7540_PRIORITIES, 2, ErrorCode::Protocol),
        ] {
            let fault = PeerSettings::new().apply(&payload(&[(name, value)]));
            assert!(matches!(fault, Err(Fault::Connection(found, _)) if found == code), "{name} {value}");
        }
    }

    #[test]
    fn the_last_value_holds_and_unknown_settings_are_ignored() {
        let mut settings = PeerSettings::new();
        let said = [
            (INITIAL_WINDOW_SIZE, 1),
            (0xffff, 7),
            (HEADER_TABLE_SIZE, 0),
            (INITIAL_WINDOW_SIZE, 9),
            (MAX_FRAME_SIZE, 16_384),
        ];
        settings.apply(&payload(&said)).unwrap();
        assert_eq!(settings, PeerSettings { header_table_size: 0, initial_window: 9 });
    }
}
