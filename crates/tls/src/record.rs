//! The record layer of an established connection: plaintext to records and back (RFC 8446 5, RFC 5246 6.2.3).
//!
//! Owns: the traffic keys of one direction each ([`Sealer`], [`Opener`]) and the form of records. Encrypts into the
//! buffer that is sent, and decrypts in the buffer that was received into: each byte is copied once, and nothing is
//! allocated. Keys come from the handshake, which rustls does; what a record means is the session's business.

use std::ops::Range;

use rustls::ConnectionTrafficSecrets;

use super::alert::{Alert, Failure};
use super::crypto::aead;

/// Bytes before the content of a record: type, version, length.
pub const HEADER_BYTES: usize = 5;

/// The most plaintext of a record.
pub const PLAINTEXT_BYTES_MAX: usize = 1 << 14;

/// The most bytes that a record adds to its plaintext here: header, nonce, type and tag.
pub const OVERHEAD_BYTES_MAX: usize = HEADER_BYTES + EXPLICIT_NONCE_BYTES + 1 + TAG_BYTES;

/// The most bytes that a record may have whatever its version, with its header (RFC 5246 6.2.3).
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + PLAINTEXT_BYTES_MAX + 2048;

/// The same of TLS 1.3 (RFC 8446 5.2).
const RECORD_BYTES_MAX_V13: usize = HEADER_BYTES + PLAINTEXT_BYTES_MAX + 256;

const TAG_BYTES: usize = 16;
const EXPLICIT_NONCE_BYTES: usize = 8;

/// Records after which the keys of a direction must not be used any more: what AES-GCM bears is 2^24.5 (RFC 8446 5.5).
pub const RECORDS_MAX: u64 = 1 << 24;

/// The content type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// A leftover of earlier versions.
    ChangeCipherSpec,
    /// An error, or the end of the data.
    Alert,
    /// About the connection itself.
    Handshake,
    /// Application data.
    Data,
}

impl ContentType {
    fn of(byte: u8) -> Option<ContentType> {
        match byte {
            20 => Some(ContentType::ChangeCipherSpec),
            21 => Some(ContentType::Alert),
            22 => Some(ContentType::Handshake),
            23 => Some(ContentType::Data),
            _ => None,
        }
    }

    fn byte(self) -> u8 {
        match self {
            ContentType::ChangeCipherSpec => 20,
            ContentType::Alert => 21,
            ContentType::Handshake => 22,
            ContentType::Data => 23,
        }
    }
}

/// How records look on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// TLS 1.3: the type is inside.
    V13,
    /// TLS 1.2 with AES-GCM: a part of the nonce is sent.
    V12ExplicitNonce,
    /// TLS 1.2 with ChaCha20-Poly1305 (RFC 7905).
    V12,
}

/// A version of TLS that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

struct Keys {
    key: aead::LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    form: Form,
}

impl Keys {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets), version: Version) -> Result<Keys, Failure> {
        let (algorithm, key, iv, is_gcm) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv, true),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv, true),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv, false),
            _ => return Err(Failure::of(Alert::InternalError)),
        };
        let form = match (version, is_gcm) {
            (Version::V13, _) => Form::V13,
            (Version::V12, true) => Form::V12ExplicitNonce,
            (Version::V12, false) => Form::V12,
        };
        let key = aead::UnboundKey::new(algorithm, key.as_ref()).map_err(|_| Failure::of(Alert::InternalError))?;
        let iv = iv.as_ref().try_into().map_err(|_| Failure::of(Alert::InternalError))?;
        Ok(Keys { key: aead::LessSafeKey::new(key), iv, sequence, form })
    }

    fn nonce(&self) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, counted) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= counted;
        }
        nonce
    }

    /// The additional authenticated data of TLS 1.2.
    fn additional_v12(&self, content_type: u8, length: usize) -> [u8; 13] {
        let mut additional = [0; 13];
        additional[..8].copy_from_slice(&self.sequence.to_be_bytes());
        additional[8..11].copy_from_slice(&[content_type, 3, 3]);
        additional[11..].copy_from_slice(&(length as u16).to_be_bytes());
        additional
    }
}

/// Turns plaintext into records.
pub struct Sealer(Keys);

impl Sealer {
    /// With the secrets of the direction.
    ///
    /// # Errors
    /// An algorithm that is not offered here.
    pub fn new(secrets: (u64, ConnectionTrafficSecrets), version: Version) -> Result<Sealer, Failure> {
        Keys::new(secrets, version).map(Sealer)
    }

    /// Whether the keys have been used so often that they have to be replaced.
    pub fn is_worn(&self) -> bool {
        self.0.sequence >= RECORDS_MAX
    }

    /// Appends one record to `out` at `at`, with as much of `parts` as it is told. Returns where the record ends. The
    /// caller sees to it that there is room: [`OVERHEAD_BYTES_MAX`] beside the plaintext.
    ///
    /// # Errors
    /// The keys must not be used any more.
    pub fn seal(
        &mut self,
        content_type: ContentType,
        parts: [&[u8]; 2],
        out: &mut [u8],
        at: usize,
    ) -> Result<usize, Failure> {
        let Keys { key, form, sequence, .. } = &self.0;
        // A margin above `is_worn`, for the records that say so.
        if *sequence >= RECORDS_MAX + 16 {
            return Err(Failure::of(Alert::InternalError));
        }
        let plain_bytes = parts[0].len() + parts[1].len();
        debug_assert!(plain_bytes <= PLAINTEXT_BYTES_MAX);
        let nonce = self.0.nonce();
        let (is_v13, explicit) = (*form == Form::V13, *form == Form::V12ExplicitNonce);
        let begin = at + HEADER_BYTES + if explicit { EXPLICIT_NONCE_BYTES } else { 0 };
        let end = begin + plain_bytes + usize::from(is_v13);
        let length = end + TAG_BYTES - at - HEADER_BYTES;
        let outer = if is_v13 { ContentType::Data } else { content_type };
        let [high, low] = (length as u16).to_be_bytes();
        let header = [outer.byte(), 3, 3, high, low];
        out[at..at + HEADER_BYTES].copy_from_slice(&header);
        if explicit {
            out[at + HEADER_BYTES..begin].copy_from_slice(&nonce[4..]);
        }
        let middle = begin + parts[0].len();
        out[begin..middle].copy_from_slice(parts[0]);
        out[middle..begin + plain_bytes].copy_from_slice(parts[1]);
        if is_v13 {
            out[end - 1] = content_type.byte();
        }
        let content = &mut out[begin..end];
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let tag = if is_v13 {
            key.seal_in_place_separate_tag(nonce, aead::Aad::from(header), content)
        } else {
            let additional = self.0.additional_v12(content_type.byte(), plain_bytes);
            key.seal_in_place_separate_tag(nonce, aead::Aad::from(additional), content)
        };
        let tag = tag.map_err(|_| Failure::of(Alert::InternalError))?;
        out[end..end + TAG_BYTES].copy_from_slice(tag.as_ref());
        self.0.sequence += 1;
        Ok(end + TAG_BYTES)
    }
}

/// Turns records into plaintext.
pub struct Opener(Keys);

impl Opener {
    /// With the secrets of the direction.
    ///
    /// # Errors
    /// An algorithm that is not offered here.
    pub fn new(secrets: (u64, ConnectionTrafficSecrets), version: Version) -> Result<Opener, Failure> {
        Keys::new(secrets, version).map(Opener)
    }

    /// Decrypts a whole record in place. Returns what it carries, and where in `record` that is.
    ///
    /// # Errors
    /// It was not made with the peer's keys, or has a form that no record has.
    pub fn open(&mut self, record: &mut [u8]) -> Result<(ContentType, Range<usize>), Failure> {
        let Keys { key, form, .. } = &self.0;
        let header: [u8; HEADER_BYTES] = record
            .get(..HEADER_BYTES)
            .and_then(|header| header.try_into().ok())
            .ok_or(Failure::of(Alert::DecodeError))?;
        let begin = HEADER_BYTES + if *form == Form::V12ExplicitNonce { EXPLICIT_NONCE_BYTES } else { 0 };
        if *form == Form::V13 && record.len() > RECORD_BYTES_MAX_V13 {
            return Err(Failure::of(Alert::RecordOverflow));
        }
        if record.len() < begin + TAG_BYTES {
            return Err(Failure::of(Alert::BadRecordMac));
        }
        let plain_bytes = record.len() - begin - TAG_BYTES;
        let refused = |_| Failure::of(Alert::BadRecordMac);
        let mut nonce = self.0.nonce();
        let (content_type, length) = match form {
            Form::V13 => {
                if header[0] != ContentType::Data.byte() {
                    return Err(Failure::of(Alert::UnexpectedMessage));
                }
                let nonce = aead::Nonce::assume_unique_for_key(nonce);
                let content = &mut record[begin..];
                let inner = key.open_in_place(nonce, aead::Aad::from(header), content).map_err(refused)?;
                // The last byte that is not padding is the type.
                let Some(last) = inner.iter().rposition(|byte| *byte != 0) else {
                    return Err(Failure::of(Alert::UnexpectedMessage));
                };
                (inner[last], last)
            }
            Form::V12ExplicitNonce | Form::V12 => {
                if *form == Form::V12ExplicitNonce {
                    nonce[4..].copy_from_slice(&record[HEADER_BYTES..begin]);
                }
                let nonce = aead::Nonce::assume_unique_for_key(nonce);
                let additional = aead::Aad::from(self.0.additional_v12(header[0], plain_bytes));
                let inner = key.open_in_place(nonce, additional, &mut record[begin..]).map_err(refused)?;
                (header[0], inner.len())
            }
        };
        if length > PLAINTEXT_BYTES_MAX {
            return Err(Failure::of(Alert::RecordOverflow));
        }
        self.0.sequence += 1;
        let content_type = ContentType::of(content_type).ok_or(Failure::of(Alert::UnexpectedMessage))?;
        Ok((content_type, begin..begin + length))
    }
}

/// How long the record is that `bytes` begin with, header included; none if its header is not all there.
///
/// # Errors
/// Longer than any record, or no record.
pub fn record_length(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let [content_type, major, _, high, low, ..] = *bytes else { return Ok(None) };
    let length = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if ContentType::of(content_type).is_none() || major != 3 {
        return Err(Failure::of(Alert::UnexpectedMessage));
    }
    if length > RECORD_BYTES_MAX {
        return Err(Failure::of(Alert::RecordOverflow));
    }
    Ok(Some(length))
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Keys")
            .field("sequence", &self.sequence)
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Sealer").field(&self.0).finish()
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Opener").field(&self.0).finish()
    }
}
