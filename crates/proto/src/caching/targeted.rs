//! `CDN-Cache-Control` (RFC 9213): what an application says to caches that answer in its place.
//!
//! Owns: its grammar, that of dictionaries (RFC 9651 3.2). Guarantees: a field that is empty or malformed says nothing,
//! so that `Cache-Control` counts; a directive whose value is of another type is none.

use super::directives::ResponseDirectives;

/// The directives in the lines of the field; none if they say nothing.
pub(super) fn read<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<ResponseDirectives> {
    let whole = lines.collect::<Vec<_>>().join(&b", "[..]);
    let mut rest = trim_spaces(&whole);
    let mut read = ResponseDirectives::default();
    if rest.is_empty() {
        return None;
    }
    loop {
        let (name, after) = key(rest)?;
        let (value, after) = match after.strip_prefix(b"=") {
            Some(after) => item(after)?,
            None => (Value::Boolean(true), after),
        };
        add(&mut read, name, value);
        rest = trim_white(parameters(after)?);
        match rest {
            [] => return Some(read),
            // No member follows the last comma.
            [b',', after @ ..] => rest = Some(trim_white(after)).filter(|rest| !rest.is_empty())?,
            _ => return None,
        }
    }
}

/// A value, as far as it means something to a directive.
#[derive(Clone, Copy)]
enum Value {
    Boolean(bool),
    Integer(i64),
    Other,
}

/// The last of several members with one name counts (RFC 9651 4.2.2).
fn add(read: &mut ResponseDirectives, name: &[u8], value: Value) {
    let is_set = matches!(value, Value::Boolean(true));
    let seconds = match value {
        Value::Integer(number) => u32::try_from(number).ok().or((number > 0).then_some(u32::MAX)),
        Value::Boolean(_) | Value::Other => None,
    };
    match name {
        b"no-store" => read.no_store = is_set,
        b"no-cache" => read.no_cache = is_set,
        b"private" => read.private = is_set,
        b"public" => read.public = is_set,
        b"must-revalidate" => read.must_revalidate = is_set,
        b"proxy-revalidate" => read.proxy_revalidate = is_set,
        b"must-understand" => read.must_understand = is_set,
        b"max-age" => read.max_age = seconds,
        b"s-maxage" => read.s_maxage = seconds,
        b"stale-while-revalidate" => read.stale_while_revalidate = seconds,
        b"stale-if-error" => read.stale_if_error = seconds,
        _ => {}
    }
}

/// A key, and what follows it.
fn key(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_first = text.first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'*');
    let is_of_key = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
    is_first.then(|| split_while(text, is_of_key))
}

/// A bare item or an inner list, and what follows it.
fn item(text: &[u8]) -> Option<(Value, &[u8])> {
    match *text.first()? {
        b'(' => inner_list(&text[1..]).map(|rest| (Value::Other, rest)),
        b'?' => match text.get(1)? {
            b'0' => Some((Value::Boolean(false), &text[2..])),
            b'1' => Some((Value::Boolean(true), &text[2..])),
            _ => None,
        },
        b'"' => quoted(&text[1..]).map(|rest| (Value::Other, rest)),
        b':' => {
            let is_of_bytes = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
            let (_, rest) = split_while(&text[1..], is_of_bytes);
            rest.strip_prefix(b":").map(|rest| (Value::Other, rest))
        }
        b'@' => number(&text[1..])
            .filter(|(value, _)| matches!(value, Value::Integer(_)))
            .map(|(_, rest)| (Value::Other, rest)),
        b'-' | b'0'..=b'9' => number(text),
        byte if byte.is_ascii_alphabetic() || byte == b'*' => {
            let is_of_token = |byte: &u8| crate::parse::list::is_token_byte(*byte) || b":/".contains(byte);
            Some((Value::Other, split_while(text, is_of_token).1))
        }
        _ => None,
    }
}

fn number(text: &[u8]) -> Option<(Value, &[u8])> {
    const DIGITS_MAX: usize = 15;
    let (sign, digits) = text.strip_prefix(b"-").map_or((1, text), |digits| (-1, digits));
    let (digits, rest) = split_while(digits, u8::is_ascii_digit);
    if !(1..=DIGITS_MAX).contains(&digits.len()) {
        return None;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let (fraction, rest) = split_while(fraction, u8::is_ascii_digit);
        let is_decimal = digits.len() <= 12 && (1..=3).contains(&fraction.len());
        return is_decimal.then_some((Value::Other, rest));
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    Some((Value::Integer(sign * number), rest))
}

/// The rest behind a string, whose first quote is not in `text`.
fn quoted(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        text = match text {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'"' | b'\\', rest @ ..] => rest,
            [b'\\', ..] => return None,
            [b' '..=b'~', rest @ ..] => rest,
            _ => return None,
        }
    }
}

/// The rest behind an inner list, whose first parenthesis is not in `text`.
fn inner_list(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        text = trim_spaces(text);
        if let Some(rest) = text.strip_prefix(b")") {
            return Some(rest);
        }
        // A list in a list is none.
        let (_, rest) = item(text).filter(|_| text[0] != b'(')?;
        text = parameters(rest)?;
        if !matches!(text.first(), Some(b' ' | b')')) {
            return None;
        }
    }
}

/// The rest behind parameters, which mean nothing here.
fn parameters(mut text: &[u8]) -> Option<&[u8]> {
    while let Some(rest) = text.strip_prefix(b";") {
        let (_, rest) = key(trim_spaces(rest))?;
        text = match rest.strip_prefix(b"=") {
            Some(value) => item(value).filter(|_| value[0] != b'(')?.1,
            None => rest,
        };
    }
    Some(text)
}

fn split_while(text: &[u8], belongs: impl Fn(&u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| !belongs(byte)).unwrap_or(text.len()))
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    split_while(text, |byte| *byte == b' ').1
}

fn trim_white(text: &[u8]) -> &[u8] {
    split_while(text, |byte| matches!(byte, b' ' | b'\t')).1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lines: &[&str]) -> Option<ResponseDirectives> {
        read(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn directives_are_read_with_their_types() {
        let all = of(&["max-age=60, no-store;a=1, private=?0", "x=(a \"b\";c 1.5), public=\"x\", y=:YQ==: , z=@5"]);
        let expected = ResponseDirectives { max_age: Some(60), no_store: true, ..Default::default() };
        assert_eq!(all, Some(expected));
        assert_eq!(of(&["max-age=5, max-age=7"]).unwrap().max_age, Some(7));
        assert_eq!(of(&["max-age=999999999999999"]).unwrap().max_age, Some(u32::MAX));
        for value in ["\"60\"", "6.5", "-1", "?1", "sixty", "(60)"] {
            assert_eq!(of(&[&format!("max-age={value}")]).unwrap().max_age, None, "{value}");
        }
    }

    #[test]
    fn what_is_empty_or_malformed_says_nothing() {
        for line in [
            "",
            "  ",
            ",",
            "max-age=60,",
            "MAX-AGE=60",
            "max-age = 60",
            "max-age=60 private",
            "max-age=",
            "a=\"open",
            "a=(1",
            "a=((1))",
            "a=1.2345",
            "a=?2",
            "a=:b",
            "a;=1",
            "a=1234567890123456",
            "max-age=60;B",
        ] {
            assert_eq!(of(&[line]), None, "{line}");
        }
        assert_eq!(of(&[]), None);
    }

    proptest! {
        #[test]
        fn any_line_is_judged(line in "[ -~\t]{0,40}|([a-z=,;()\"?:@0-9. -]|max-age=){0,20}") {
            of(&[&line]);
        }
    }
}
