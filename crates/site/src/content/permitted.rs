//! The permission of a client to have a file: a verdict on the path at which the file is, not on the one that led to
//! it.
//!
//! Owns: [`Permitted`], without which no file becomes an answer, a part of a page, an entry of an archive or a hit of a
//! search; and the other paths of one file ([`other_places`]), as a link or a second prefix makes them. Guarantees: a
//! [`Permitted`] is only made when every path at which the file is has been judged; where the server itself uses it
//! (`_headers`, `_redirects`, what settings name) the judgement is no. Opens nothing. For scripts, which are not kept
//! as answers, the verdict is that of each request (`worker/context/scripts.rs`).

use std::borrow::Cow;
use std::os::fd::BorrowedFd;

use lamna_io::open;
use rustix::io::Errno;

use super::site::Site;

/// Proof that the client may have a file, and the path at which it is.
#[derive(Debug)]
pub(super) struct Permitted<'p>(Cow<'p, [u8]>);

impl<'p> Permitted<'p> {
    /// For `file`, which is open and is at `own`, if `lets` says so of every path at which it is.
    pub(super) fn judge(
        site: &Site,
        own: Cow<'p, [u8]>,
        file: BorrowedFd<'_>,
        lets: impl Fn(&[u8]) -> bool,
    ) -> Option<Permitted<'p>> {
        let is_let = lets(&own) && other_places(site, &own, file).ok()?.iter().all(|place| lets(place));
        is_let.then_some(Permitted(own))
    }

    /// Where nothing is kept from anybody, or from anybody else than all that is asked for.
    pub(super) fn unjudged(own: Cow<'p, [u8]>) -> Permitted<'p> {
        Permitted(own)
    }

    /// The path.
    pub(super) fn path(&self) -> &[u8] {
        &self.0
    }
}

/// The paths at which `file` is beside `own`: where it really is, beneath each root that has it. A path that ends with
/// a slash is one of a folder, and so are these. None where there is no `/proc` that could tell.
///
/// # Errors
/// It cannot be found out, as where the way to the file is longer than the system can say. Then it is not known which
/// rules apply to the file.
pub(super) fn other_places(site: &Site, own: &[u8], file: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let Some(real) = told(open::real_path(file))? else { return Ok(Vec::new()) };
    let mut places = Vec::new();
    let user = site.user_of(own);
    let of_user = user.iter().map(|(prefix, root)| (&prefix[..], &**root));
    for (prefix, root) in site.roots().chain(of_user) {
        for above in root.real_paths()? {
            let name = match real.strip_prefix(&*above) {
                Some([]) => &[],
                Some([b'/', name @ ..]) => name,
                Some(name) if above.ends_with(b"/") => name,
                _ => continue,
            };
            let slash = if own.ends_with(b"/") && !name.is_empty() { &b"/"[..] } else { b"" };
            let path = [prefix, name, slash].concat();
            // Beneath another prefix that path is something else.
            let has_it = match site.in_user_directory(&path) {
                Some(_) => user.as_ref().is_some_and(|(_, of_user)| std::ptr::eq(&**of_user, root)),
                None => std::ptr::eq(site.root_of(&path).0, root),
            };
            if path != own && has_it && !places.contains(&path) {
                places.push(path);
            }
        }
    }
    Ok(places)
}

/// The path that the system reports; none where it has no way to tell.
fn told(real: Result<Vec<u8>, Errno>) -> Result<Option<Vec<u8>>, Errno> {
    match real {
        Err(Errno::NOENT) => Ok(None),
        real => real.map(Some),
    }
}
