//! Base64 (RFC 4648), as credentials, WebSocket handshakes and orders of certificates have it.
//!
//! Owns: both alphabets. Guarantees: no two texts are decoded to the same bytes. Not in constant time: not for keys.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// RFC 4648 4, with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = digits(bytes, STANDARD);
    text.extend(std::iter::repeat_n('=', text.len().next_multiple_of(4) - text.len()));
    text
}

/// RFC 4648 5, without padding.
pub fn encode_url_safe(bytes: &[u8]) -> String {
    digits(bytes, URL_SAFE)
}

fn digits(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            text.push(char::from(alphabet[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    text
}

/// The bytes of `encoded` (RFC 4648 4), if it is the one text for them: with padding, and zero bits at the end. Not of
/// an empty text.
pub fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    if encoded.is_empty() || !encoded.len().is_multiple_of(4) {
        return None;
    }
    let padding = encoded.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(encoded.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in &encoded[..encoded.len() - padding] {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8); // The low byte is meant.
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // RFC 4648 10.
    #[test]
    fn the_vectors_of_the_rfc_hold() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(encode_url_safe(bytes.as_bytes()), text.trim_end_matches('='));
        }
        assert_eq!((encode(&[0xfb, 0xff]), encode_url_safe(&[0xfb, 0xff])), ("+/8=".to_owned(), "-_8".to_owned()));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes in proptest::collection::vec(any::<u8>(), 1..80)) {
            prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }

        #[test]
        fn what_is_decoded_has_one_spelling(text in "[A-Za-d0-2+/=]{0,12}") {
            if let Some(bytes) = decode(text.as_bytes()) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
