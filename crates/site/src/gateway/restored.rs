//! Addresses of an application in its answers, put right for a client that asks beneath a prefix.
//!
//! Owns: [`Restored`], by which `Location`, `Content-Location`, `Refresh` and the `Path` and `Domain` of `Set-Cookie`
//! are changed. Guarantees: nothing is changed but what names the application's own origin, beneath the path that it is
//! at; what is changed is still a value of its field. Pure.

/// How the addresses of an application become those that clients ask for.
#[derive(Clone, Debug)]
pub(super) struct Restored {
    /// The beginning of paths that the application does not know; may be empty.
    pub(super) prefix: String,
    /// The beginning of paths that clients do not know; may be empty.
    pub(super) base: String,
    /// Scheme and authority that the client has asked for; none where it named no host.
    pub(super) client: Option<(&'static str, Vec<u8>)>,
    /// Authorities by which the application may know itself, and the client does not.
    pub(super) own: Vec<Vec<u8>>,
}

impl Restored {
    /// The value of this field as the client gets it; none if it is as it was.
    pub(super) fn field(&self, name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.len() {
            8 if is("location") => self.reference(value),
            16 if is("content-location") => self.reference(value),
            7 if is("refresh") => self.refresh(value),
            10 if is("set-cookie") => self.cookie(value),
            _ => None,
        }
    }

    /// A reference to a resource (RFC 3986 4.1).
    fn reference(&self, value: &[u8]) -> Option<Vec<u8>> {
        let authority_at = match value {
            [b'/', b'/', ..] => 2,
            [b'/', ..] => return self.path(value, b""),
            _ => {
                let schemes = ["http://", "https://"];
                let is_scheme = |scheme: &&&str| {
                    value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
                };
                schemes.iter().find(is_scheme)?.len()
            }
        };
        let end = value[authority_at..].iter().position(|byte| b"/?#".contains(byte));
        let (before, rest) = value.split_at(end.map_or(value.len(), |end| authority_at + end));
        let authority = &before[authority_at..];
        let (scheme, client) = self.client.as_ref()?;
        if authority.eq_ignore_ascii_case(client) {
            return self.path(rest, before);
        }
        if !self.own.iter().any(|own| own.eq_ignore_ascii_case(authority)) {
            return None;
        }
        let origin = match authority_at {
            2 => [b"//", &client[..]].concat(),
            _ => [scheme.as_bytes(), b"://", client].concat(),
        };
        let is_beneath = self.base.is_empty() || self.beneath_base(rest).is_some();
        is_beneath.then(|| self.path(rest, &origin).unwrap_or_else(|| [&origin[..], rest].concat()))
    }

    /// A path, with what may follow it, behind `origin`. None if it is not beneath the application, or if it has the
    /// prefix already: of an application that has been told it, and uses it.
    fn path(&self, path: &[u8], origin: &[u8]) -> Option<Vec<u8>> {
        let rest = self.beneath_base(path)?;
        let has_prefix = !self.prefix.is_empty() && is_beneath(path, self.prefix.as_bytes());
        if has_prefix || self.prefix == self.base {
            return None;
        }
        let slash: &[u8] = if rest.starts_with(b"/") { b"" } else { b"/" };
        let restored = [origin, self.prefix.as_bytes(), slash, rest].concat();
        // A path that begins with two slashes, or what browsers take for that, would name a host.
        let names_host = origin.is_empty() && matches!(restored[..], [b'/', b'/' | b'\\', ..]);
        (!names_host).then_some(restored)
    }

    /// The rest of `path` behind the path of the application.
    fn beneath_base<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        is_beneath(path, self.base.as_bytes()).then(|| &path[self.base.len()..])
    }

    /// `5; url=/a`: WHATWG HTML, "shared declarative refresh steps".
    fn refresh(&self, value: &[u8]) -> Option<Vec<u8>> {
        let at = value.iter().position(|byte| matches!(byte, b';' | b','))? + 1;
        let (start, rest) = value.split_at(at + blank(&value[at..]));
        let is_named = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"url"));
        let equals = 3 + rest.get(3..).map_or(0, blank);
        let at = match is_named && rest.get(equals) == Some(&b'=') {
            true => equals + 1 + blank(&rest[equals + 1..]),
            false => 0,
        };
        let (name, url) = rest.split_at(at);
        let (quote, url) = match url {
            [quote @ (b'"' | b'\''), url @ ..] => (&[*quote][..], url),
            _ => (&b""[..], url),
        };
        let end = quote.first().and_then(|quote| url.iter().position(|byte| byte == quote)).unwrap_or(url.len());
        let restored = self.reference(&url[..end])?;
        Some([start, name, quote, &restored, &url[end..]].concat())
    }

    /// RFC 6265 5.2. A cookie whose name begins with `__Host-` has the path `/`, or is none.
    fn cookie(&self, value: &[u8]) -> Option<Vec<u8>> {
        let mut parts = value.split(|byte| *byte == b';');
        let pair = parts.next()?;
        let is_of_host = pair.trim_ascii_start().get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"__Host-"));
        let (mut out, mut is_changed) = (pair.to_vec(), false);
        for part in parts {
            let (name, said) = match part.iter().position(|byte| *byte == b'=') {
                Some(at) => (part[..at].trim_ascii(), part[at + 1..].trim_ascii()),
                None => (part.trim_ascii(), &b""[..]),
            };
            if name.eq_ignore_ascii_case(b"domain") && self.is_own_host(said) {
                // No client takes it: without it the cookie is for the host that was asked.
                is_changed = true;
                continue;
            }
            let path = name.eq_ignore_ascii_case(b"path") && said.starts_with(b"/") && !is_of_host;
            match path.then(|| self.path(said, b"")).flatten() {
                Some(path) => {
                    // The prefix itself is beneath such a path, too.
                    let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(&path);
                    out.extend([b"; Path=", path].concat());
                    is_changed = true;
                }
                None => out.extend([b";", part].concat()),
            }
        }
        is_changed.then_some(out)
    }

    fn is_own_host(&self, domain: &[u8]) -> bool {
        let domain = domain.strip_prefix(b".").unwrap_or(domain);
        let is_clients = self.client.as_ref().is_some_and(|(_, client)| host_of(client).eq_ignore_ascii_case(domain));
        !domain.is_empty() && !is_clients && self.own.iter().any(|own| host_of(own).eq_ignore_ascii_case(domain))
    }
}

fn host_of(authority: &[u8]) -> &[u8] {
    lamna_proto::parse::host::name_of(authority)
}

fn is_beneath(path: &[u8], base: &[u8]) -> bool {
    path.strip_prefix(base).is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b'?' | b'#')))
}

fn blank(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restored(prefix: &str, base: &str) -> Restored {
        let client = Some(("https", b"www.test".to_vec()));
        Restored {
            prefix: prefix.into(),
            base: base.into(),
            client,
            own: vec![b"10.0.0.1:3000".to_vec(), b"app".to_vec()],
        }
    }

    fn assert_all(of: &Restored, name: &str, cases: &[(&str, &str)]) {
        for (value, expected) in cases {
            let found = of.field(name.as_bytes(), value.as_bytes());
            let found = found.map_or_else(|| (*value).to_owned(), |found| String::from_utf8(found).unwrap());
            assert_eq!(found, *expected, "{name}: {value}");
        }
    }

    #[test]
    fn a_location_of_the_application_is_put_behind_the_prefix_and_no_other_is() {
        let of = restored("/app", "");
        for name in ["Location", "content-location"] {
            assert_all(
                &of,
                name,
                &[
                    ("/x?a=/b#c", "/app/x?a=/b#c"),
                    ("/", "/app/"),
                    ("/apple", "/app/apple"),
                    ("/app/x", "/app/x"),
                    ("/app?x", "/app?x"),
                    ("x", "x"),
                    ("?q", "?q"),
                    ("", ""),
                    ("http://10.0.0.1:3000/x", "https://www.test/app/x"),
                    ("HTTP://APP", "https://www.test/app/"),
                    ("http://app?q", "https://www.test/app/?q"),
                    ("http://app/app/x", "https://www.test/app/x"),
                    ("//app/x", "//www.test/app/x"),
                    ("http://www.test/x", "http://www.test/app/x"),
                    ("https://other.test/x", "https://other.test/x"),
                    ("http://10.0.0.1/x", "http://10.0.0.1/x"),
                    ("http://app@evil/x", "http://app@evil/x"),
                    ("http://app.evil/x", "http://app.evil/x"),
                    ("mailto:a@app", "mailto:a@app"),
                ],
            );
        }
        assert_all(
            &restored("/app", "/v1"),
            "Location",
            &[("/v1/x", "/app/x"), ("/v1", "/app/"), ("/v2/x", "/v2/x"), ("http://app/v2", "http://app/v2")],
        );
        assert_all(
            &restored("", "/v1"),
            "Location",
            &[
                ("/v1/x", "/x"),
                ("/x", "/x"),
                ("http://app/v1/x", "https://www.test/x"),
                // What would name a host stays a path.
                ("/v1//evil.test", "/v1//evil.test"),
                ("/v1/\\evil.test", "/v1/\\evil.test"),
            ],
        );
        assert_all(&restored("", ""), "Location", &[("/x", "/x"), ("http://app/x", "https://www.test/x")]);
        assert_all(&of, "X-Location", &[("/x", "/x")]);
    }

    #[test]
    fn a_refresh_leads_behind_the_prefix() {
        assert_all(
            &restored("/app", ""),
            "Refresh",
            &[
                ("5", "5"),
                ("5; url=/x", "5; url=/app/x"),
                ("0;URL='/x'; y", "0;URL='/app/x'; y"),
                ("0, url = \"http://app/x\"", "0, url = \"https://www.test/app/x\""),
                ("0; /x", "0; /app/x"),
                ("0; url=https://other.test/", "0; url=https://other.test/"),
                ("0; url=", "0; url="),
                ("0; url", "0; url"),
            ],
        );
    }

    #[test]
    fn cookies_are_for_paths_behind_the_prefix() {
        assert_all(
            &restored("/app", ""),
            "Set-Cookie",
            &[
                ("a=b; Path=/; HttpOnly", "a=b; Path=/app; HttpOnly"),
                ("a=/;path=/x;Secure", "a=/; Path=/app/x;Secure"),
                ("a=b; Path=/app/x", "a=b; Path=/app/x"),
                ("a=b", "a=b"),
                ("a=b; Path", "a=b; Path"),
                ("a=b; Path=x", "a=b; Path=x"),
                ("__Host-a=b; Path=/; Secure", "__Host-a=b; Path=/; Secure"),
                ("__Secure-a=b; Path=/; Secure", "__Secure-a=b; Path=/app; Secure"),
                ("a=b; Domain=app; Path=/", "a=b; Path=/app"),
                ("a=b; domain=.10.0.0.1", "a=b"),
                ("a=b; Domain=www.test", "a=b; Domain=www.test"),
                ("a=b; Domain=test", "a=b; Domain=test"),
            ],
        );
    }
}
