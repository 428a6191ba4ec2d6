//! How old a translation may be: the bounds that entries and the store share.

/// How long a translation is used without looking at the file system again if changes of it would not be noticed, in
/// milliseconds. With what the root may have been left unlooked at before
/// ([`ROOT_FRESH_MS`](crate::content::site::ROOT_FRESH_MS)), and with the age of the last look at the clock, that is
/// less than a second.
pub const FRESH_MS: u64 = 850;
/// At this age such a translation is looked at again while it is still being used, so that no request waits for it.
pub const REFRESH_MS: u64 = 425;
/// How long a translation is used if changes of it are noticed: against what inotify does not tell. For each entry of
/// the store a millisecond at least, so that on average a thousand are looked at in a second, however many there are.
pub const RECHECK_MS_MIN: u64 = 10_000;
