//! That who asks may have what is at a path: the verdict on the path at which something is, not on the one that led to it.
//!
//! Owns: [`Permitted`], without which no file becomes an answer, a part of a page, an entry of an archive or a hit of a search; and the other paths
//! of one file ([`other_places`]), as a link or a second prefix makes them. Guarantees: a [`Permitted`] is only made when every path at which the file is
//! has been judged. Opens nothing. For scripts, which are not kept as answers, the verdict is that of each request (`worker/context/scripts.rs`).

use std::borrow::Cow;
use std::os::fd::BorrowedFd;

use super::site::Site;
use crate::io::open;

/// That something may be had by who asks, and the path at which it is.
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
        let is_let = lets(&own) && other_places(site, &own, file).iter().all(|place| lets(place));
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

/// The paths at which `file` is beside `own`: where it really is, beneath each root that has it. A path that ends with a slash is one of a folder, and so are
/// these. None where the system does not tell (without `/proc`).
pub(super) fn other_places(site: &Site, own: &[u8], file: BorrowedFd<'_>) -> Vec<Vec<u8>> {
    let Ok(real) = open::real_path(file) else { return Vec::new() };
    let place = |(prefix, root): (&[u8], &super::site::Root)| {
        let above = root.real_path()?;
        let name = match real.strip_prefix(&*above)? {
            [] => &[],
            [b'/', name @ ..] => name,
            name if above.ends_with(b"/") => name,
            _ => return None,
        };
        let slash = if own.ends_with(b"/") && !name.is_empty() { &b"/"[..] } else { b"" };
        let path = [prefix, name, slash].concat();
        // Beneath another prefix that path is something else.
        (path != own && std::ptr::eq(site.root_of(&path).0, root)).then_some(path)
    };
    site.roots().filter_map(place).collect()
}
