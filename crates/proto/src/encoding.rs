//! Connections as bytes and open files, for drivers in other processes.
//!
//! Owns: the layout of single values, and its version. Guarantees: any bytes decode to a value or to [`Malformed`];
//! what is reserved while decoding is bounded by the bytes that are there. What belongs to a connection is written and
//! read beside each type. Sends nothing: files travel beside the bytes, in the order in which they are listed.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::time::Instant;
use crate::workspace::pages::PagesByHost;

/// The version of the layout. To be raised whenever anything that is written changes: another version is not read.
pub const VERSION: u16 = 7;

/// A connection as bytes and the files that its answers are in.
#[derive(Debug, Default)]
pub struct Encoded {
    /// To be given to [`Connection::decode`](crate::conn::Connection::decode), with the files.
    pub bytes: Vec<u8>,
    /// Open files that hold content, to be given to it in this order, or duplicates of them.
    pub files: Vec<Arc<OwnedFd>>,
}

/// The bytes do not stand for a connection, or files are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("these bytes are not a connection")
    }
}

impl std::error::Error for Malformed {}

/// The bytes and files that are being decoded.
pub(crate) struct Source<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) files: VecDeque<OwnedFd>,
    /// For answers that were given without a resolution.
    pub(crate) pages: &'a dyn PagesByHost,
}

/// A value that has a place in the layout.
pub(crate) trait Portable: Sized {
    fn write(&self, to: &mut Encoded);
    fn read(from: &mut Source<'_>) -> Result<Self, Malformed>;
}

impl<'a> Source<'a> {
    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }
}

/// `value` if `holds`.
pub(crate) fn checked<T>(value: T, holds: bool) -> Result<T, Malformed> {
    if holds { Ok(value) } else { Err(Malformed) }
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(impl Portable for $type {
            fn write(&self, to: &mut Encoded) {
                to.bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(from: &mut Source<'_>) -> Result<$type, Malformed> {
                let bytes = from.take(size_of::<$type>())?;
                bytes.try_into().map(<$type>::from_le_bytes).map_err(|_| Malformed)
            }
        })*
    };
}

integers!(u8, u16, u32, u64);

impl Portable for bool {
    fn write(&self, to: &mut Encoded) {
        u8::from(*self).write(to);
    }

    fn read(from: &mut Source<'_>) -> Result<bool, Malformed> {
        match u8::read(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

/// Far enough from the end of time that no timeout reaches it.
const INSTANT_MAX: u64 = u64::MAX / 2;

impl Portable for Instant {
    fn write(&self, to: &mut Encoded) {
        self.us().write(to);
    }

    fn read(from: &mut Source<'_>) -> Result<Instant, Malformed> {
        let us = u64::read(from)?;
        checked(Instant::from_us(us), us <= INSTANT_MAX)
    }
}

impl Portable for Vec<u8> {
    fn write(&self, to: &mut Encoded) {
        write_bytes(self, to);
    }

    fn read(from: &mut Source<'_>) -> Result<Vec<u8>, Malformed> {
        let length = u32::read(from)?;
        from.take(length as usize).map(<[u8]>::to_vec)
    }
}

/// As a `Vec<u8>` is written.
///
/// # Panics
/// From 4 GiB on: what a connection holds is bounded far below.
pub(crate) fn write_bytes(bytes: &[u8], to: &mut Encoded) {
    let length = u32::try_from(bytes.len()).expect("what a connection holds is bounded");
    length.write(to);
    to.bytes.extend_from_slice(bytes);
}

impl<T: Portable> Portable for Option<T> {
    fn write(&self, to: &mut Encoded) {
        self.is_some().write(to);
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn read(from: &mut Source<'_>) -> Result<Option<T>, Malformed> {
        bool::read(from)?.then(|| T::read(from)).transpose()
    }
}

impl<T: Portable> Portable for VecDeque<T> {
    fn write(&self, to: &mut Encoded) {
        u32::try_from(self.len()).expect("what a connection holds is bounded").write(to);
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut Source<'_>) -> Result<VecDeque<T>, Malformed> {
        let count = u32::read(from)?;
        // Each takes bytes, so a false count ends where they do.
        (0..count).map(|_| T::read(from)).collect()
    }
}
