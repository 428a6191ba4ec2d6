//! Texts in which captures of a path stand: where a redirect leads, what a rewrite asks for, what a field of a request
//! to an application says.
//!
//! Owns: the syntax (`$1`, `${name}`, `$path`, `$host`, `$$`) and filling it in, and the further variables that fields
//! of requests have ([`Variable`]). Guarantees: of what is filled into a field nothing is a control byte. Pure.

use std::borrow::Cow;

use lamna_proto::parse::path;

use super::pattern::Pattern;

/// A text with places for captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number(usize),
    Name(String),
    Path,
    Host,
    Variable(Variable),
}

/// A fact of a request or of its connection, beside its path and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// The address of the client: of the peer, or the one that a trusted proxy names.
    Client,
    /// `https` or `http`.
    Scheme,
    /// The name of the request in the logs.
    RequestId,
    /// The user, or what else `access` has verified.
    User,
    /// The subject of the client's certificate, where the site asks for one.
    CertificateSubject,
    /// A field of the request, by its name in lower case.
    Field(String),
}

impl Variable {
    /// The one of this name.
    fn named(name: &str) -> Option<Variable> {
        Some(match name {
            "client" => Variable::Client,
            "scheme" => Variable::Scheme,
            "request_id" => Variable::RequestId,
            "user" => Variable::User,
            "certificate_subject" => Variable::CertificateSubject,
            _ => Variable::Field(name.strip_prefix("http_").filter(|rest| !rest.is_empty())?.replace('_', "-")),
        })
    }

    /// Whether it is what the server has verified of the client, which no client may say of itself.
    pub fn is_identity(&self) -> bool {
        matches!(self, Variable::User | Variable::CertificateSubject)
    }

    /// Whether two requests for the same target may differ in it.
    fn is_of_client(&self) -> bool {
        !matches!(self, Variable::Scheme)
    }
}

/// The captures of a pattern in a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    /// From capture 1 on; those that took no part in the match are empty.
    pub numbered: Vec<Vec<u8>>,
    /// By name.
    pub named: Vec<(String, Vec<u8>)>,
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// The fault of the text, as words that follow it.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let word =
                |text: &str| text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
            if let Some(behind) = after.strip_prefix('$') {
                literal.push('$');
                rest = behind;
                continue;
            }
            let (name, length) = if let Some(braced) = after.strip_prefix('{') {
                let end = braced.find('}').ok_or("has a `${` without its `}`")?;
                (&braced[..end], end + 2)
            } else if after.starts_with(|first: char| first.is_ascii_digit()) {
                let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                (&after[..digits], digits)
            } else if let Some(word) = ["path", "host"].into_iter().find(|word| after.starts_with(word)) {
                // `$pathology` is not meant by anybody, and `$path.html` by many.
                (word, word.len())
            } else {
                (&after[..word(after)], word(after))
            };
            if name.is_empty() || word(name) != name.len() {
                return Err(
                    "has a `$` that names no capture: write `$1`, `${name}` or `$path`, or `$$` for the sign".into()
                );
            }
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(match name.parse() {
                Ok(number) => Part::Number(number),
                Err(_) if name == "path" => Part::Path,
                Err(_) if name == "host" => Part::Host,
                Err(_) => Part::Name(name.to_owned()),
            });
            rest = &after[length..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Template { text: text.to_owned(), parts })
    }

    /// Reads the value of a field of a request, which may have a [`Variable`] where another text has a named capture.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn of_field(text: &str) -> Result<Template, String> {
        let mut template = Template::parse(text)?;
        for part in &mut template.parts {
            if let Part::Name(name) = part
                && let Some(variable) = Variable::named(&name.to_ascii_lowercase())
            {
                *part = Part::Variable(variable);
            }
        }
        Ok(template)
    }

    /// The variables in it, beside the path and the host.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(variable) => Some(variable),
            _ => None,
        })
    }

    /// Whether it may come to something else for two requests for the same target.
    pub fn tells_of_client(&self) -> bool {
        self.variables().any(Variable::is_of_client)
    }

    /// The first capture of `pattern` that has the name of a variable.
    pub fn shadows(&self, pattern: &Pattern) -> Option<String> {
        let (_, names) = pattern.captures();
        let is_in_use = |name: &&String| {
            Variable::named(&name.to_ascii_lowercase()).is_some_and(|one| self.variables().any(|other| *other == one))
        };
        names.iter().find(is_in_use).cloned()
    }

    /// A text in which nothing stands for anything.
    pub fn literal(text: &str) -> Template {
        Template { text: text.replace('$', "$$"), parts: vec![Part::Text(text.to_owned())] }
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text before the first capture.
    pub fn beginning(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether the path is what stands first, or first after the beginning.
    pub fn leads_with_path(&self) -> bool {
        let dynamic = self.parts.iter().find(|part| !matches!(part, Part::Text(_)));
        dynamic.is_none_or(|first| *first == Part::Path)
    }

    /// Whether the host that is asked is filled in.
    pub fn names_host(&self) -> bool {
        self.parts.contains(&Part::Host)
    }

    /// Whether no capture can be a part of the host that this leads to, which is written out or the one that is asked.
    pub fn closes_host(&self) -> bool {
        let Some((_, after_scheme)) = self.beginning().split_once("://") else { return true };
        let ends_host = |text: &str| text.contains(['/', '?', '#']);
        if ends_host(after_scheme) {
            return true;
        }
        let end = self.parts[1..].iter().find(|part| match part {
            Part::Text(text) => ends_host(text),
            Part::Host => false,
            Part::Path | Part::Number(_) | Part::Name(_) | Part::Variable(_) => true,
        });
        matches!(end, None | Some(Part::Path | Part::Text(_)))
    }

    /// Whether nothing is filled in.
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Whether all of it is the path.
    pub fn is_path(&self) -> bool {
        self.parts == [Part::Path]
    }

    /// The first capture that `pattern` does not have, as it is written.
    pub fn missing_from(&self, pattern: Option<&Pattern>) -> Option<String> {
        let (count, names) = pattern.map_or((0, Vec::new()), Pattern::captures);
        self.parts.iter().find_map(|part| match part {
            Part::Number(number) if *number == 0 || *number > count => Some(format!("${number}")),
            Part::Name(name) if !names.contains(name) => Some(format!("${{{name}}}")),
            _ => None,
        })
    }

    /// Filled in for `path`, with each capture as it is.
    pub fn fill(&self, path: &[u8], captures: &Captures) -> Vec<u8> {
        self.filled(path, b"", captures, |bytes| bytes.to_vec())
    }

    /// Filled in for `path` of `host`, with each capture percent-encoded, so that none can be more than a part of a
    /// path.
    pub fn fill_encoded(&self, path: &[u8], host: &[u8], captures: &Captures) -> String {
        let filled = self.filled(path, host, captures, |bytes| path::encode(bytes).into_bytes());
        // Its own text is UTF-8 and what is filled in is ASCII.
        String::from_utf8(filled).unwrap_or_default()
    }

    /// Filled in as the value of a field, for `path` of `host`, with each capture percent-encoded. `value` says what a
    /// variable comes to. None if one comes to nothing, or to something that is no value of a field.
    pub fn fill_field<'v>(
        &self,
        path: &[u8],
        host: &[u8],
        captures: &Captures,
        value: impl Fn(&Variable) -> Option<Cow<'v, [u8]>>,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(self.text.len());
        for part in &self.parts {
            match part {
                Part::Variable(variable) => out.extend_from_slice(&value(variable).filter(|one| !one.is_empty())?),
                Part::Host if host.is_empty() => return None,
                _ => part.write(path, host, captures, |bytes| path::encode(bytes).into_bytes(), &mut out),
            }
        }
        let value = out.trim_ascii();
        let is_value = value.iter().all(|byte| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f);
        (is_value && !value.is_empty()).then(|| value.to_vec())
    }

    fn filled(&self, path: &[u8], host: &[u8], captures: &Captures, form: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len() + path.len());
        self.parts.iter().for_each(|part| part.write(path, host, captures, &form, &mut out));
        out
    }
}

impl Part {
    fn write(&self, path: &[u8], host: &[u8], captures: &Captures, form: impl Fn(&[u8]) -> Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Path => out.extend(form(path)),
            Part::Host => out.extend_from_slice(host),
            Part::Number(number) => {
                out.extend(captures.numbered.get(number.wrapping_sub(1)).map(|one| form(one)).unwrap_or_default());
            }
            Part::Name(name) => {
                let found = captures.named.iter().find(|(other, _)| other == name);
                out.extend(found.map(|(_, value)| form(value)).unwrap_or_default());
            }
            // Only fields have them: `fill_field` writes them.
            Part::Variable(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> String {
        let captures =
            Captures { numbered: vec![b"one".to_vec(), b"a b".to_vec()], named: vec![("id".into(), b"7".to_vec())] };
        Template::parse(text).unwrap().fill_encoded(b"/p q", b"a.example", &captures)
    }

    #[test]
    fn captures_stand_where_they_are_named() {
        assert_eq!(filled("/x/$1/${2}/${id}.html"), "/x/one/a%20b/7.html");
        assert_eq!(filled("https://a.example$path?x=$$1"), "https://a.example/p%20q?x=$1");
        assert_eq!(filled("$path.html"), "/p%20q.html");
        assert_eq!(filled("https://$host$path"), "https://a.example/p%20q");
        assert_eq!(filled("$id"), "7");
        assert_eq!(filled("$9"), "");
    }

    #[test]
    fn a_sign_that_names_nothing_is_refused() {
        for text in ["/$", "/$ x", "/${", "/${}", "/${a-b}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_capture_that_a_pattern_does_not_have_is_named() {
        let missing = |text: &str, glob: &str| {
            Template::parse(text).unwrap().missing_from(Pattern::from_glob(glob).unwrap().first())
        };
        assert_eq!(missing("/$1", "/a/*"), None);
        assert_eq!(missing("/$2", "/a/*"), Some("$2".into()));
        assert_eq!(missing("/$2", "/*/b/*"), None);
        assert_eq!(missing("/${id}", "/a/*"), Some("${id}".into()));
        assert_eq!(missing("$path", "/a"), None);
    }

    #[test]
    fn no_capture_is_a_part_of_a_host() {
        for (text, closes) in [
            ("https://$host$path", true),
            ("https://$host:8443$path", true),
            ("https://$host", true),
            ("https://www.$host/$1", true),
            ("https://a.example$path", true),
            ("https://a.example$1", false),
            ("https://$host$1", false),
            ("https://$1.example/", false),
            ("/$1", true),
        ] {
            assert_eq!(Template::parse(text).unwrap().closes_host(), closes, "{text}");
        }
    }

    #[test]
    fn a_literal_stays_what_it_is() {
        let template = Template::literal("/a$1");
        assert_eq!(template.fill(b"/x", &Captures::default()), b"/a$1");
        assert_eq!(Template::parse(template.text()).unwrap().fill(b"/x", &Captures::default()), b"/a$1");
    }

    #[test]
    fn a_field_is_filled_in_or_left_out() {
        let captures = Captures { numbered: vec![b"a\r\nX-B: c".to_vec()], named: Vec::new() };
        let filled = |text: &str| {
            let value = |variable: &Variable| match variable {
                Variable::Scheme => Some(Cow::Borrowed(&b"https"[..])),
                Variable::User => Some(Cow::Borrowed(&b"ada\r\nX-B: c"[..])),
                Variable::Field(name) if name == "x-a" => Some(Cow::Borrowed(&b"\xe9"[..])),
                Variable::Field(name) if name == "x-empty" => Some(Cow::Borrowed(&b""[..])),
                _ => None,
            };
            Template::of_field(text).unwrap().fill_field(b"/p q", b"a.example", &captures, value)
        };
        for (text, expected) in [
            ("$1", Some(&b"a%0D%0AX-B%3A%20c"[..])),
            ("$scheme://${host}$path.", Some(b"https://a.example/p%20q.")),
            ("[$http_x_a] $$ ", Some(b"[\xe9] $")),
            ("$HTTP_X_A", Some(b"\xe9")),
            // No value: neither a client's line end, nor what is not there, nor nothing at all.
            ("$user", None),
            ("a $client", None),
            ("$http_x_empty", None),
            ("  ", None),
        ] {
            assert_eq!(filled(text).as_deref(), expected, "{text}");
        }
        let template = |text: &str| Template::of_field(text).unwrap();
        assert!(template("$client").tells_of_client() && !template("$scheme $host $path $1").tells_of_client());
        // In a path it is the name of a capture.
        assert!(Template::parse("/$user").unwrap().variables().next().is_none());
    }
}
