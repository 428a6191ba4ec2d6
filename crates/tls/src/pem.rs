//! The content of a file with certificates or a key: PEM (RFC 7468), or DER.
//!
//! Owns: taking such files apart, the order of a chain, and the words for what is not right. Guarantees: no certificate
//! is left out without a word. Does not judge what a certificate says.

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::der;

/// The bytes that editors of Windows put in front of a text. They may stand wherever a file was appended to another.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Begins DER of all that is read here.
const SEQUENCE: u8 = 0x30;

/// The certificates in a file, in their order.
///
/// # Errors
/// The fault in it, in words.
pub(super) fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    if bytes.first() == Some(&SEQUENCE) {
        return match der::names(bytes) {
            Some(_) => Ok(vec![CertificateDer::from(bytes.to_vec())]),
            None => Err(format!("it is in DER, and no certificate{IN_PKCS12}")),
        };
    }
    let text = text_of(bytes)?;
    let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = read.map_err(|error| format!("is not whole PEM: {}", in_words(&error)))?;
    let begun = memchr::memmem::find_iter(&text, b"-----BEGIN CERTIFICATE-----").count();
    match certificates.len() {
        0 => {
            let other = label(&text).map_or_else(String::new, |label| format!(", but \"{label}\""));
            let hint = "expected PEM, as in -----BEGIN CERTIFICATE----- on a line of its own, or DER";
            Err(format!("there is no certificate in it{other}: {hint}"))
        }
        found if found < begun => Err(format!(
            "{found} of {begun} certificates in it can be read: each begins and ends with a line of its own"
        )),
        _ => Ok(certificates),
    }
}

/// The private key in a file.
///
/// # Errors
/// The fault in it, in words.
pub(super) fn key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if bytes.first() == Some(&SEQUENCE) {
        let key = PrivateKeyDer::try_from(bytes.to_vec());
        return key.map_err(|_| format!("there is no private key in it: it is in DER, and of another kind{IN_PKCS12}"));
    }
    let text = text_of(bytes)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        _ if memchr::memmem::find(&text, b"ENCRYPTED").is_some() => {
            "the key is encrypted: write it without a passphrase, readable by the server only".to_owned()
        }
        Error::NoItemsFound => {
            let other = label(&text).map_or_else(String::new, |label| format!(", but \"{label}\""));
            let hint = "expected PEM, as in -----BEGIN PRIVATE KEY----- on a line of its own, or DER";
            format!("there is no private key in it{other}: {hint}")
        }
        error => format!("there is no private key in it: it is not whole PEM: {}", in_words(&error)),
    })
}

const IN_PKCS12: &str = "; take .pfx and .p12 apart by `openssl pkcs12 -in FILE -nodes -out FILE.pem`";

/// The text of a file, without marks of its encoding.
fn text_of(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err("it is in UTF-16: save it as ASCII or UTF-8".to_owned());
    }
    let mut text = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for at in memchr::memmem::find_iter(bytes, BYTE_ORDER_MARK) {
        text.extend_from_slice(&bytes[from..at]);
        from = at + BYTE_ORDER_MARK.len();
    }
    text.extend_from_slice(&bytes[from..]);
    Ok(text)
}

fn in_words(error: &Error) -> String {
    match error {
        Error::MissingSectionEnd { .. } => {
            "what begins with -----BEGIN has no line -----END, which is a line of its own: the file was cut off, or has no line ends".to_owned()
        }
        Error::IllegalSectionStart { .. } => "a line that begins with -----BEGIN does not end with -----".to_owned(),
        Error::Base64Decode(_) => "what is between -----BEGIN and -----END is not Base64".to_owned(),
        other => other.to_string(),
    }
}

/// The first label of a PEM text, if it is one of letters and digits.
fn label(text: &[u8]) -> Option<String> {
    const BEGINNING: &[u8] = b"-----BEGIN ";
    let rest = &text[memchr::memmem::find(text, BEGINNING)? + BEGINNING.len()..];
    let label = &rest[..memchr::memmem::find(rest, b"-----").filter(|length| (1..=40).contains(length))?];
    let is_plain = label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ');
    is_plain.then(|| String::from_utf8_lossy(label).into_owned())
}

/// A chain from the certificate of the server on, each followed by that of its issuer (RFC 8446 4.4.2, RFC 5246 7.4.2).
/// `is_own` says which one that is. What issues none of these stays behind them, in its order.
pub(super) fn in_order(
    mut certificates: Vec<CertificateDer<'static>>,
    is_own: impl Fn(&CertificateDer<'static>) -> bool,
) -> Vec<CertificateDer<'static>> {
    let Some(own) = certificates.iter().position(is_own) else { return certificates };
    let mut chain = vec![certificates.remove(own)];
    while let Some((issuer, _)) = chain.last().and_then(|last| der::names(last)) {
        let next = certificates.iter().position(|one| der::names(one).is_some_and(|(_, subject)| subject == issuer));
        let Some(next) = next else { break };
        let next = certificates.remove(next);
        chain.push(next);
    }
    chain.append(&mut certificates);
    chain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    #[test]
    fn marks_of_an_encoding_hide_no_certificate() {
        let [one, other] = ["a.test", "b.test"].map(testing::pair);
        let text = format!("\u{feff}{}\u{feff}{}", one.certificate_pem, other.certificate_pem);
        let read = certificates(text.as_bytes()).unwrap();
        assert_eq!(read.iter().map(|one| one.to_vec()).collect::<Vec<_>>(), [one.certificate, other.certificate]);
        assert!(key(format!("\u{feff}{}", one.key_pem).as_bytes()).is_ok());
        let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain(one.key_pem.bytes().flat_map(|byte| [byte, 0])).collect();
        assert!(key(&wide).unwrap_err().contains("UTF-16") && certificates(&wide).unwrap_err().contains("UTF-16"));
    }

    #[test]
    fn der_is_read_as_pem_is() {
        let pair = testing::pair("a.test");
        assert_eq!(certificates(&pair.certificate).unwrap(), certificates(pair.certificate_pem.as_bytes()).unwrap());
        let in_pem = key(pair.key_pem.as_bytes()).unwrap();
        assert_eq!(key(in_pem.secret_der()).unwrap(), in_pem);
        // Each in the place of the other.
        assert!(certificates(in_pem.secret_der()).unwrap_err().contains("no certificate"));
        assert!(key(&pair.certificate).unwrap_err().contains("no private key"));
    }

    #[test]
    fn what_is_wrong_is_said_in_words() {
        let pair = testing::pair("a.test");
        let on_one_line = pair.certificate_pem.replace('\n', "");
        let indented = pair.certificate_pem.replace("-----BEGIN", " -----BEGIN");
        let second = format!("{}{indented}", pair.certificate_pem);
        let no_text = pair.certificate_pem.replace("\nMII", "\n!II");
        for (text, words) in [
            (&*on_one_line, "no line ends"),
            (&second, "1 of 2 certificates"),
            (&no_text, "not Base64"),
            ("-----BEGIN PKCS7-----\nMIIB\n-----END PKCS7-----\n", "but \"PKCS7\""),
            ("nothing", "there is no certificate in it: expected PEM"),
        ] {
            let said = certificates(text.as_bytes()).unwrap_err();
            assert!(said.contains(words) && said.len() < 200, "{said}");
        }
        for (text, words) in [(&*pair.certificate_pem, "but \"CERTIFICATE\""), ("", "expected PEM")] {
            let said = key(text.as_bytes()).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn a_chain_in_any_order_begins_with_the_certificate_of_the_server() {
        let (own, others) = testing::chain("a.test");
        let whole: Vec<_> = [own.clone()].into_iter().chain(others).collect();
        assert_eq!(whole.len(), 3);
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mixed = order.map(|at| whole[at].clone()).to_vec();
            assert_eq!(in_order(mixed, |one| *one == own), whole, "{order:?}");
        }
        let strange = CertificateDer::from(testing::pair("strange.test").certificate);
        let ordered = in_order(vec![strange.clone(), whole[1].clone(), own.clone()], |one| *one == own);
        assert_eq!(ordered, [own.clone(), whole[1].clone(), strange.clone()]);
        assert_eq!(in_order(vec![strange.clone(), own.clone()], |_| false), [strange, own]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "(-----|BEGIN |END |CERTIFICATE|\n|A){0,20}") {
            let _ = (certificates(&bytes), key(&bytes), certificates(text.as_bytes()), key(text.as_bytes()));
        }
    }
}
