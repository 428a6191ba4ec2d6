//! Reading what an X.509 certificate says about itself: from when to when it is valid, and whose it is (RFC 5280 4.1).
//!
//! Owns: the few fields that are shown to people and checked at start. Trust is judged by rustls alone. Whatever cannot
//! be read is left out; nothing here panics whatever the bytes are.

use lamna_config::access::SUBJECT_CHARACTERS_MAX;
use lamna_proto::date::days_since_epoch;

/// From when to when a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub from: i64,
    /// The last second.
    pub until: i64,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const KEY_IDENTIFIER: u8 = 0x80;
/// RFC 5280 4.2.1.1.
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

/// When `certificate` is valid.
pub fn validity(certificate: &[u8]) -> Option<Validity> {
    let (validity, _) = fields(certificate)?;
    let mut reader = Reader(validity);
    let (from, until) = (reader.any()?, reader.any()?);
    Some(Validity { from: time(from)?, until: time(until)? })
}

/// Whose `certificate` is, as in `CN=alice,O=Example`. What cannot be written is `?`, and long names are cut off.
pub fn subject(certificate: &[u8]) -> Option<Box<str>> {
    let (_, subject) = fields(certificate)?;
    let mut names = Reader(subject);
    let mut text = String::new();
    while let Some((SET, set)) = names.any() {
        let mut attributes = Reader(Reader(set).expect(SEQUENCE)?);
        let (oid, (_, value)) = (attributes.expect(OBJECT_IDENTIFIER)?, attributes.any()?);
        let key = match oid {
            [0x55, 4, 3] => "CN",
            [0x55, 4, 6] => "C",
            [0x55, 4, 7] => "L",
            [0x55, 4, 8] => "ST",
            [0x55, 4, 10] => "O",
            [0x55, 4, 11] => "OU",
            _ => continue,
        };
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(key);
        text.push('=');
        let printable =
            |character: char| if character.is_control() || ",\"\\".contains(character) { '?' } else { character };
        text.extend(String::from_utf8_lossy(value).chars().take(SUBJECT_CHARACTERS_MAX).map(printable));
    }
    (!text.is_empty()).then(|| text.into())
}

/// The identifier of `certificate` for its authority: the identifier of the key that has signed it, and its serial
/// number as it is encoded (RFC 9773 4.1).
pub fn identifier(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut tbs = tbs(certificate)?;
    let serial = tbs.expect(INTEGER)?;
    let extensions = std::iter::from_fn(|| tbs.any()).find(|(tag, _)| *tag == EXTENSIONS)?.1;
    let mut extensions = Reader(Reader(extensions).expect(SEQUENCE)?);
    while let Some((SEQUENCE, extension)) = extensions.any() {
        let mut parts = Reader(extension);
        if parts.expect(OBJECT_IDENTIFIER)? != AUTHORITY_KEY_IDENTIFIER {
            continue;
        }
        let value = std::iter::from_fn(|| parts.any()).find(|(tag, _)| *tag == OCTET_STRING)?.1;
        return Some((Reader(Reader(value).expect(SEQUENCE)?).expect(KEY_IDENTIFIER)?, serial));
    }
    None
}

/// The names of the issuer and the subject of `certificate`, as they are encoded.
pub fn names(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut tbs = tbs(certificate)?;
    tbs.expect(INTEGER)?;
    tbs.expect(SEQUENCE)?;
    let issuer = tbs.expect(SEQUENCE)?;
    tbs.expect(SEQUENCE)?;
    Some((issuer, tbs.expect(SEQUENCE)?))
}

/// The contents of validity and subject.
fn fields(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut tbs = tbs(certificate)?;
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        tbs.any()?;
    }
    Some((tbs.expect(SEQUENCE)?, tbs.expect(SEQUENCE)?))
}

/// The signed part, behind the version.
fn tbs(certificate: &[u8]) -> Option<Reader<'_>> {
    let mut tbs = Reader(Reader(Reader(certificate).expect(SEQUENCE)?).expect(SEQUENCE)?);
    if tbs.0.first() == Some(&VERSION) {
        tbs.any()?;
    }
    Some(tbs)
}

fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| {
        Some(digits.get(range)?.iter().fold(0_i64, |number, digit| number * 10 + i64::from(digit - b'0')))
    };
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(0..2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, 2)
        }
        (GENERALIZED_TIME, 14) => (number(0..4)?, 4),
        _ => return None,
    };
    let part = |index: usize| number(rest + 2 * index..rest + 2 * index + 2);
    let (month, day) = (part(0)?, part(1)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(days_since_epoch(year, month, day) * 86_400 + part(2)? * 3600 + part(3)? * 60 + part(4)?)
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn expect(&mut self, expected: u8) -> Option<&'b [u8]> {
        let (tag, content) = self.any()?;
        (tag == expected).then_some(content)
    }

    fn any(&mut self) -> Option<(u8, &'b [u8])> {
        let [tag, first, rest @ ..] = self.0 else { return None };
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x83 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x0f))?;
                (length.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use lamna_proto::base64::encode_url_safe;
    use proptest::prelude::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn a_certificate_says_when_it_is_valid_and_whose_it_is() {
        let pair = testing::pair_of("example.org", (2024, 2, 29), (2050, 1, 1));
        let found = validity(&pair.certificate).unwrap();
        assert_eq!((found.from, found.until), (1_709_164_800, 2_524_608_000));
        assert_eq!(subject(&pair.certificate).as_deref(), Some("CN=example.org,O=Lamna?s tests"));
    }

    #[test]
    fn a_certificate_is_known_by_who_has_signed_it_and_its_number() {
        // The example of RFC 9773 4.1.
        let text = "-----BEGIN CERTIFICATE-----\n\
            MIIBQzCB66ADAgECAgUAh2VDITAKBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpFeGFt\n\
            cGxlIENBMCIYDzAwMDEwMTAxMDAwMDAwWhgPMDAwMTAxMDEwMDAwMDBaMBYxFDAS\n\
            BgNVBAMTC2V4YW1wbGUuY29tMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeBZu\n\
            7cbpAYNXZLbbh8rNIzuOoqOOtmxA1v7cRm//AwyMwWxyHz4zfwmBhcSrf47NUAFf\n\
            qzLQ2PPQxdTXREYEnKMjMCEwHwYDVR0jBBgwFoAUaYhba4dGQEHhs3uEe6CuLN4B\n\
            yNQwCgYIKoZIzj0EAwIDRwAwRAIge09+S5TZAlw5tgtiVvuERV6cT4mfutXIlwTb\n\
            +FYN/8oCIClDsqBklhB9KAelFiYt9+6FDj3z4KGVelYM5MdsO3pK\n\
            -----END CERTIFICATE-----\n";
        let certificate: CertificateDer<'_> = CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
        let (key, serial) = identifier(&certificate).unwrap();
        assert_eq!(
            (encode_url_safe(key).as_str(), encode_url_safe(serial).as_str()),
            ("aYhba4dGQEHhs3uEe6CuLN4ByNQ", "AIdlQyE")
        );
    }

    proptest! {
        #[test]
        fn damaged_certificates_cause_no_more_than_no_answer(at in 0_usize..1000, byte: u8, cut in 0_usize..1200) {
            let mut bytes = testing::pair_of("example.org", (2024, 1, 1), (2034, 1, 1)).certificate;
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(cut);
            let _ = (validity(&bytes), subject(&bytes), identifier(&bytes));
        }
    }
}
