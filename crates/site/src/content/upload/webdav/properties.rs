//! Properties of files and folders: those that the server works out (RFC 4918 15, RFC 4331), and the answer about one
//! resource.
//!
//! Owns: [`Wanted`], [`Described`] and their text. Guarantees: an entity tag, a date and a type are those that GET
//! gives; of a file that was changed a moment ago there is no tag, as there is none with GET. Reads nothing from the
//! disk: what it tells of was found out before.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lamna_io::file_state::{Stamp, now_ns};
use lamna_proto::date;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::parse::path;

use super::locks::{self, Lock};
use super::xml::{Element, Malformed, Name, are_within, push_text};

/// Bytes of all names that a request asks for, or changes, as an answer says them.
pub(super) const NAMES_BYTES_MAX: usize = 64 * 1024;

/// The properties that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All that are not costly, and these besides.
    All(Vec<Name>),
    /// The names of all.
    Names,
    /// These.
    These(Vec<Name>),
}

/// A file or a folder, as far as it is told of.
#[derive(Debug)]
pub(super) struct Described<'a> {
    /// Its path, with a slash at the end if it is a folder.
    pub(super) path: &'a [u8],
    pub(super) is_folder: bool,
    pub(super) stamp: Stamp,
    /// When it was made, in seconds since 1970, where the file system keeps that.
    pub(super) created_unix_seconds: Option<u64>,
    pub(super) media_type: Cow<'a, str>,
    /// The locks that hold for it.
    pub(super) locks: Vec<&'a Lock>,
    /// Whether it can be locked.
    pub(super) can_be_locked: bool,
    /// Bytes that are free, and bytes that are taken.
    pub(super) quota: Option<(u64, u64)>,
    /// Properties that clients have set.
    pub(super) dead: Vec<Element>,
}

/// A property that the server works out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Live {
    CreationDate,
    DisplayName,
    ContentLength,
    ContentType,
    Etag,
    LastModified,
    ResourceType,
    SupportedLock,
    LockDiscovery,
    QuotaAvailable,
    QuotaUsed,
}

const LIVE: [(&str, Live); 11] = [
    ("creationdate", Live::CreationDate),
    ("displayname", Live::DisplayName),
    ("getcontentlength", Live::ContentLength),
    ("getcontenttype", Live::ContentType),
    ("getetag", Live::Etag),
    ("getlastmodified", Live::LastModified),
    ("resourcetype", Live::ResourceType),
    ("supportedlock", Live::SupportedLock),
    ("lockdiscovery", Live::LockDiscovery),
    ("quota-available-bytes", Live::QuotaAvailable),
    ("quota-used-bytes", Live::QuotaUsed),
];

/// Whether the server works the property of this name out, and clients cannot set it. The name that is shown is theirs
/// to choose, and further ones of WebDAV, such as the language of content.
pub(super) fn is_protected(name: &Name) -> bool {
    live(name).is_some_and(|live| live != Live::DisplayName)
}

fn live(name: &Name) -> Option<Live> {
    let found = LIVE.iter().find(|(local, _)| name.is_dav(local));
    found.map(|(_, live)| *live)
}

impl Live {
    fn is_of_quota(self) -> bool {
        matches!(self, Live::QuotaAvailable | Live::QuotaUsed)
    }
}

impl Wanted {
    /// Those that the body of a PROPFIND asks for. No body asks for all.
    pub(super) fn of(body: Option<Element>) -> Result<Wanted, Malformed> {
        let Some(body) = body else { return Ok(Wanted::All(Vec::new())) };
        if !body.name.is_dav("propfind") {
            return Err(Malformed);
        }
        let [all, only_names, these] = ["allprop", "propname", "prop"].map(|local| body.child(local));
        match (all, only_names, these) {
            (Some(_), None, None) => {
                Ok(Wanted::All(body.child("include").map(names_in).transpose()?.unwrap_or_default()))
            }
            (None, Some(_), None) => Ok(Wanted::Names),
            (None, None, Some(these)) => Ok(Wanted::These(names_in(these)?)),
            _ => Err(Malformed),
        }
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let mut before: Option<&Arc<str>> = None;
        let mut bytes = 0;
        for name in self.names() {
            let is_shared = before.is_some_and(|before| Arc::ptr_eq(before, &name.namespace));
            bytes += name.memory_bytes() + if is_shared { 0 } else { name.namespace.len() };
            before = Some(&name.namespace);
        }
        bytes
    }

    /// Whether properties that clients have set are needed.
    pub(super) fn needs_dead(&self) -> bool {
        match self {
            Wanted::All(_) | Wanted::Names => true,
            Wanted::These(names) => names.iter().any(|name| !is_protected(name)),
        }
    }

    fn names(&self) -> &[Name] {
        match self {
            Wanted::All(names) | Wanted::These(names) => names,
            Wanted::Names => &[],
        }
    }

    /// Whether what is free is asked for.
    pub(super) fn needs_quota(&self) -> bool {
        self.names().iter().any(|name| live(name).is_some_and(Live::is_of_quota))
    }

    /// Whether it is asked when something was made.
    pub(super) fn needs_creation(&self) -> bool {
        !matches!(self, Wanted::These(_)) || self.names().iter().any(|name| live(name) == Some(Live::CreationDate))
    }
}

/// The names of the elements in `of`, each once: an answer says each of them for every file that it tells of.
fn names_in(of: &Element) -> Result<Vec<Name>, Malformed> {
    let mut known = HashSet::new();
    let names: Vec<Name> = of.children().map(|child| &child.name).filter(|name| known.insert(*name)).cloned().collect();
    if are_within(&names, NAMES_BYTES_MAX) { Ok(names) } else { Err(Malformed) }
}

impl Described<'_> {
    /// Writes the answer about it.
    pub(super) fn write(&self, wanted: &Wanted, out: &mut String) {
        begin_response(self.path, out);
        let (mut found, mut missing) = (String::new(), String::new());
        match wanted {
            Wanted::Names => {
                let mut value = String::new();
                for (local, live) in LIVE {
                    value.clear();
                    if self.value(live, &mut value) || live.is_of_quota() {
                        found.push_str(&format!("<D:{local}/>"));
                    }
                }
                self.others().for_each(|element| element.name.write_empty(&mut found));
            }
            Wanted::All(include) => {
                for (local, live) in LIVE.into_iter().filter(|(_, live)| !live.is_of_quota()) {
                    self.write_live((local, live), &mut found);
                }
                self.others().for_each(|element| element.write(&mut found));
                for name in include {
                    let own = LIVE.into_iter().find(|(local, live)| name.is_dav(local) && live.is_of_quota());
                    own.map(|own| self.write_live(own, &mut found));
                }
            }
            Wanted::These(names) => {
                let dead: HashMap<&Name, &Element> = self.dead.iter().map(|dead| (&dead.name, dead)).collect();
                for name in names {
                    let is_found = match LIVE.into_iter().find(|(local, _)| name.is_dav(local)) {
                        Some(own) => self.write_live(own, &mut found),
                        None => dead.get(name).map(|element| element.write(&mut found)).is_some(),
                    };
                    if !is_found {
                        name.write_empty(&mut missing);
                    }
                }
            }
        }
        if !found.is_empty() || missing.is_empty() {
            push_propstat(&found, "200 OK", out);
        }
        if !missing.is_empty() {
            push_propstat(&missing, "404 Not Found", out);
        }
        out.push_str("</D:response>\n");
    }

    /// Properties that clients have set, but for those that are told of in any case.
    fn others(&self) -> impl Iterator<Item = &Element> {
        self.dead.iter().filter(|element| live(&element.name).is_none())
    }

    /// Writes the property with its value. False if there is none.
    fn write_live(&self, (local, live): (&str, Live), out: &mut String) -> bool {
        let before = out.len();
        out.push_str(&format!("<D:{local}>"));
        if !self.value(live, out) {
            out.truncate(before);
            return false;
        }
        out.push_str(&format!("</D:{local}>"));
        true
    }

    fn value(&self, live: Live, out: &mut String) -> bool {
        match live {
            Live::CreationDate => {
                let Some(created) = self.created_unix_seconds else { return false };
                out.push_str(&rfc3339(created));
            }
            Live::DisplayName => match self.dead.iter().find(|element| element.name.is_dav("displayname")) {
                Some(own) => own.write_content(out),
                None => {
                    let path = self.path.strip_suffix(b"/").unwrap_or(self.path);
                    push_text(&String::from_utf8_lossy(super::name_of(path)), out);
                }
            },
            Live::ContentLength if !self.is_folder => out.push_str(&self.stamp.size.to_string()),
            Live::ContentType if !self.is_folder => push_text(&self.media_type, out),
            Live::Etag if !self.is_folder && self.stamp.has_etag(now_ns()) => {
                push_text(&self.stamp.etag(Coding::Identity), out)
            }
            Live::ContentLength | Live::ContentType | Live::Etag => return false,
            Live::LastModified => {
                let Some(modified) = self.stamp.last_modified(now_ns()) else { return false };
                out.push_str(&String::from_utf8_lossy(&date::format(modified)));
            }
            Live::ResourceType => out.push_str(if self.is_folder { "<D:collection/>" } else { "" }),
            Live::SupportedLock => out.push_str(if self.can_be_locked { SUPPORTED } else { "" }),
            Live::LockDiscovery => locks::discover(&self.locks, out),
            Live::QuotaAvailable | Live::QuotaUsed => {
                let Some((available, used)) = self.quota else { return false };
                out.push_str(&if live == Live::QuotaUsed { used } else { available }.to_string());
            }
        }
        true
    }
}

/// The beginning of an answer about several resources.
pub(super) const MULTISTATUS: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
/// Its end.
pub(super) const MULTISTATUS_END: &str = "</D:multistatus>\n";
/// Its media type.
pub(super) const MEDIA_TYPE: &str = "application/xml; charset=utf-8";

const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
     <D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// Writes the beginning of the answer about what has this path.
pub(super) fn begin_response(of: &[u8], out: &mut String) {
    out.push_str("<D:response><D:href>");
    push_text(&path::encode(of), out);
    out.push_str("</D:href>");
}

/// Writes that these properties have this status.
pub(super) fn push_propstat(properties: &str, status: &str, out: &mut String) {
    out.push_str(&format!(
        "<D:propstat><D:prop>{properties}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
    ));
}

/// An instant as `creationdate` has it (RFC 3339).
fn rfc3339(unix_seconds: u64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let date = date::format(unix_seconds);
    let date = String::from_utf8_lossy(&date);
    // Sun, 06 Nov 1994 08:49:37 GMT
    let month = MONTHS.iter().position(|month| *month == &date[8..11]).unwrap_or_default() + 1;
    format!("{}-{month:02}-{}T{}Z", &date[12..16], &date[5..7], &date[17..25])
}

#[cfg(test)]
mod tests {
    use super::super::xml::parse;
    use super::*;

    fn described(is_folder: bool) -> Described<'static> {
        Described {
            path: if is_folder { b"/a&b/" } else { b"/a&b" },
            is_folder,
            stamp: Stamp::absent(),
            created_unix_seconds: Some(784_111_777),
            media_type: "text/plain".into(),
            locks: Vec::new(),
            can_be_locked: true,
            quota: Some((3, 4)),
            dead: vec![parse(b"<x xmlns='u'>1</x>").unwrap()],
        }
    }

    fn written(is_folder: bool, body: &str) -> String {
        let body = (!body.is_empty()).then(|| parse(body.as_bytes()).unwrap());
        let mut out = String::new();
        described(is_folder).write(&Wanted::of(body).unwrap(), &mut out);
        assert!(parse(format!("{MULTISTATUS}{out}{MULTISTATUS_END}").as_bytes()).is_ok(), "{out}");
        out
    }

    #[test]
    fn what_is_asked_for_by_name_is_found_or_missing() {
        let body = "<D:propfind xmlns:D='DAV:'><D:prop><D:creationdate/><D:getetag/><x xmlns='u'/><y xmlns='u'/>\
                    <D:quota-used-bytes/></D:prop></D:propfind>";
        let folder = written(true, body);
        assert!(folder.contains("<D:href>/a%26b/</D:href>"), "{folder}");
        assert!(folder.contains("<D:creationdate>1994-11-06T08:49:37Z</D:creationdate>"), "{folder}");
        assert!(folder.contains("<x xmlns=\"u\">1</x><D:quota-used-bytes>4<"), "{folder}");
        let (_, missing) = folder.rsplit_once("<D:propstat>").unwrap();
        assert!(
            missing.contains("<getetag xmlns=\"DAV:\"/><y xmlns=\"u\"/>") && missing.contains(" 404 "),
            "{missing}"
        );
        assert!(written(false, body).contains("<D:getetag>&quot;0-"));
    }

    #[test]
    fn all_is_what_is_not_costly_and_what_clients_have_set() {
        for body in ["", "<propfind xmlns='DAV:'><allprop/></propfind>"] {
            let all = written(false, body);
            for part in ["<D:getcontentlength>0<", "<D:resourcetype></D:resourcetype>", "<D:lockentry>", ">1</x>"] {
                assert!(all.contains(part), "{part}: {all}");
            }
            assert!(!all.contains("quota") && !all.contains(" 404 "), "{all}");
        }
        let more = "<propfind xmlns='DAV:'><allprop/><include><quota-available-bytes/></include></propfind>";
        assert!(written(true, more).contains("<D:quota-available-bytes>3<"));
        let names = written(true, "<propfind xmlns='DAV:'><propname/></propfind>");
        assert!(names.contains("<D:lockdiscovery/>") && names.contains("<x xmlns=\"u\"/>"), "{names}");
        assert!(!names.contains("getetag"), "{names}");
    }

    #[test]
    fn each_name_is_answered_once_and_all_of_them_are_bounded() {
        let asked = |names: &str| {
            let body = format!(
                "<D:propfind xmlns:D='DAV:' xmlns:q='{}'><D:prop>{names}</D:prop></D:propfind>",
                ">".repeat(256)
            );
            Wanted::of(Some(parse(body.as_bytes()).unwrap()))
        };
        let wanted = asked(&"<q:a/><D:lockdiscovery/>".repeat(1000)).unwrap();
        let Wanted::These(names) = &wanted else { panic!("{wanted:?}") };
        assert_eq!(names.len(), 2);
        let mut out = String::new();
        described(false).write(&wanted, &mut out);
        assert_eq!(out.matches("<a xmlns=").count(), 1);
        // Of 40 KB of names a megabyte would be said for every file.
        let many = |count: usize| (0..count).map(|number| format!("<q:a{number}/>")).collect::<String>();
        assert_eq!(asked(&many(2000)), Err(Malformed));
        assert!(asked(&many(50)).is_ok_and(|wanted| wanted.memory_bytes() > 50 * 32));
    }

    #[test]
    fn a_body_that_asks_for_nothing_or_for_two_things_is_malformed() {
        for body in [
            "<propfind xmlns='DAV:'/>",
            "<propfind xmlns='DAV:'><propname/><prop/></propfind>",
            "<propfind><prop/></propfind>",
            "<x xmlns='DAV:'><prop/></x>",
        ] {
            assert_eq!(Wanted::of(Some(parse(body.as_bytes()).unwrap())), Err(Malformed), "{body}");
        }
    }
}
