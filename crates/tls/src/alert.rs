//! Failures of a TLS connection, and the alert that the peer is told (RFC 8446 6).
//!
//! Owns: the list of failures that are found here. Those that rustls finds in a handshake have the alert that it has
//! written.

/// An alert that is sent from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
    /// Nothing more will be sent.
    CloseNotify,
    /// A message that has no place here.
    UnexpectedMessage,
    /// A record that the peer has not made, or that was changed on the way.
    BadRecordMac,
    /// A record that is too long.
    RecordOverflow,
    /// A message that cannot be read.
    DecodeError,
    /// A defect of ours.
    InternalError,
    /// A renegotiation of TLS 1.2 does not take place.
    NoRenegotiation,
    /// No site of this name.
    UnrecognizedName,
}

impl Alert {
    /// The number on the wire.
    pub fn code(self) -> u8 {
        match self {
            Alert::CloseNotify => 0,
            Alert::UnexpectedMessage => 10,
            Alert::BadRecordMac => 20,
            Alert::RecordOverflow => 22,
            Alert::DecodeError => 50,
            Alert::InternalError => 80,
            Alert::NoRenegotiation => 100,
            Alert::UnrecognizedName => 112,
        }
    }

    /// Its name in RFC 8446 6.
    pub fn name(self) -> &'static str {
        match self {
            Alert::CloseNotify => "close_notify",
            Alert::UnexpectedMessage => "unexpected_message",
            Alert::BadRecordMac => "bad_record_mac",
            Alert::RecordOverflow => "record_overflow",
            Alert::DecodeError => "decode_error",
            Alert::InternalError => "internal_error",
            Alert::NoRenegotiation => "no_renegotiation",
            Alert::UnrecognizedName => "unrecognized_name",
        }
    }

    /// The alert message: how grave, and which.
    pub fn message(self) -> [u8; 2] {
        let is_warning = matches!(self, Alert::CloseNotify | Alert::NoRenegotiation);
        [if is_warning { 1 } else { 2 }, self.code()]
    }
}

/// Why a TLS connection ends before it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The alert for the peer; none if it has been told already, or has told us.
    pub alert: Option<Alert>,
    /// A message for the log.
    pub words: String,
}

const DEPARTURE: &str = "the client has left during the handshake";

impl Failure {
    /// A failure that the peer is told by `alert`. The words are made when the log needs them.
    pub fn of(alert: Alert) -> Failure {
        Failure { alert: Some(alert), words: String::new() }
    }

    /// The peer has left during a handshake, as probes and impatient clients do.
    pub fn departure() -> Failure {
        Failure::told(DEPARTURE)
    }

    /// Whether the peer has just left.
    pub fn is_departure(&self) -> bool {
        self.words == DEPARTURE
    }

    /// A failure of which the peer knows.
    pub fn told(words: impl ToString) -> Failure {
        Failure { alert: None, words: words.to_string() }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = match self.alert {
            _ if !self.words.is_empty() => &self.words,
            None => "the peer has ended it",
            Some(Alert::CloseNotify) => "it was closed",
            Some(Alert::UnexpectedMessage) => "a message came that has no place there",
            Some(Alert::BadRecordMac) => "a record came that was not encrypted with the keys of the connection",
            Some(Alert::RecordOverflow) => "a record was too long",
            Some(Alert::DecodeError) => "a message could not be read",
            Some(Alert::InternalError) => "the keys cannot be used any more",
            Some(Alert::NoRenegotiation) => "the peer insists on a renegotiation",
            Some(Alert::UnrecognizedName) => "no site has the name that was asked for",
        };
        formatter.write_str(words)
    }
}

impl std::error::Error for Failure {}
