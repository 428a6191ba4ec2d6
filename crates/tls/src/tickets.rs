//! Session tickets: a client that comes again does without the private key (RFC 5077, RFC 8446 4.6.1).
//!
//! Owns: the keys that tickets are encrypted with, what a ticket is good for, a certificate with its chain
//! ([`BoundTickets`]) and nothing else, and for how long. Guarantees: a client makes a whole handshake once a day at
//! least, as a ticket says when the last one was, and those that are given for it say the same ([`HandshakeTickets`]).
//! Sites that ask clients for certificates give none and take none (`endpoint`): what a client has shown counts for one
//! connection. The keys change every six hours, by a step that cannot be undone: who finds the keys of today cannot
//! read the tickets of yesterday. All workers and processes that begin with the same bytes ([`Tickets::to_bytes`]) take
//! the same steps by the clock and say nothing to each other; an upgraded program gets the bytes as well.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use lamna_sys::clock::unix_ms;
use rustls::server::ProducesTickets;

use super::crypto::{RandomError, aead, fill_random, hmac};

/// For how long tickets are made with the same keys, and how long a client is told to keep one.
pub const PERIOD_SECONDS: u64 = 6 * 60 * 60;

/// How long after a whole handshake a client may come again without another one, however often it has come meanwhile.
/// RFC 8446 4.6.1 allows seven days.
pub const AGE_SECONDS_MAX: u64 = 24 * 60 * 60;

/// How far ahead the clock of another process, or this one's before it was set, may have been.
const CLOCKS_DIFFER_SECONDS: u64 = 60;

/// Bytes of a ticket that say when the whole handshake was.
const TIME_BYTES: usize = 8;

/// Bytes that all keys follow from.
pub const TICKETS_BYTES: usize = 8 + 32 + KEY_BYTES;

/// Steps taken at once at most: some years. Further ahead is a clock that was set wrong; keys stay as they are then.
const STEPS_MAX: u64 = 10_000;

const NAME_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = NAME_BYTES + 32;

/// The certificate and chain that a ticket is good for: a digest.
type Binding = [u8; 32];

/// A key and the name by which tickets say that it is theirs.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TicketKey([u8; KEY_BYTES]);

/// The keys of a time.
#[derive(Clone, PartialEq, Eq)]
struct Keys {
    period: u64,
    /// The seed from which the key of the period, and the seed of the next one, are derived.
    seed: [u8; 32],
    current: TicketKey,
    previous: TicketKey,
}

fn derive(seed: &[u8; 32], purpose: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, seed);
    let mut derived = [0; 32];
    derived.copy_from_slice(hmac::sign(&key, purpose).as_ref());
    derived
}

impl TicketKey {
    fn of(seed: &[u8; 32]) -> TicketKey {
        let mut bytes = [0; KEY_BYTES];
        bytes[..NAME_BYTES].copy_from_slice(&derive(seed, b"lamna ticket name")[..NAME_BYTES]);
        bytes[NAME_BYTES..].copy_from_slice(&derive(seed, b"lamna ticket key"));
        TicketKey(bytes)
    }

    fn name(&self) -> &[u8] {
        &self.0[..NAME_BYTES]
    }

    fn key(&self) -> Option<aead::LessSafeKey> {
        aead::UnboundKey::new(&aead::AES_256_GCM, &self.0[NAME_BYTES..]).ok().map(aead::LessSafeKey::new)
    }

    fn digest(&self, text: &[u8]) -> [u8; 16] {
        let mut seed = [0; 32];
        seed.copy_from_slice(&self.0[NAME_BYTES..]);
        let own = derive(&derive(&seed, b"lamna digest key"), text);
        let mut digest = [0; 16];
        digest.copy_from_slice(&own[..16]);
        digest
    }

    fn encrypt(&self, plain: &[u8], binding: &Binding) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        fill_random(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_BYTES + plain.len() + TAG_BYTES);
        ticket.extend_from_slice(self.name());
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let (head, content) = ticket.split_at_mut(NAME_BYTES + NONCE_BYTES);
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let aad = aead::Aad::from(additional(&head[..NAME_BYTES], binding));
        let tag = self.key()?.seal_in_place_separate_tag(nonce, aad, content).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8], binding: &Binding) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        if name != self.name() {
            return None;
        }
        let (nonce, sealed) = rest.split_at_checked(NONCE_BYTES)?;
        let nonce = aead::Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut content = sealed.to_vec();
        let length =
            self.key()?.open_in_place(nonce, aead::Aad::from(additional(name, binding)), &mut content).ok()?.len();
        content.truncate(length);
        Some(content)
    }
}

/// The additional authenticated data of a ticket.
fn additional(name: &[u8], binding: &Binding) -> [u8; NAME_BYTES + 32] {
    let mut additional = [0; NAME_BYTES + 32];
    additional[..NAME_BYTES].copy_from_slice(name);
    additional[NAME_BYTES..].copy_from_slice(binding);
    additional
}

impl Keys {
    fn begin(seed: [u8; 32], period: u64) -> Keys {
        let current = TicketKey::of(&seed);
        Keys { period, seed, current, previous: current }
    }

    fn step(&mut self) {
        self.seed = derive(&self.seed, b"lamna next seed");
        self.previous = std::mem::replace(&mut self.current, TicketKey::of(&self.seed));
        self.period += 1;
    }

    fn is_current(&self, period: u64) -> bool {
        period <= self.period || period - self.period > STEPS_MAX
    }
}

/// Makes tickets and reads them, for all workers of a process.
pub struct Tickets {
    /// Written every six hours.
    keys: RwLock<Keys>,
    /// How far the clock has been put ahead.
    #[cfg(test)]
    ahead_seconds: AtomicU64,
}

impl Tickets {
    /// Tickets with fresh random keys.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn new() -> Result<Tickets, RandomError> {
        let mut seed = [0; 32];
        fill_random(&mut seed)?;
        Ok(Tickets::of(Keys::begin(seed, unix_ms() / 1000 / PERIOD_SECONDS)))
    }

    /// Tickets with the keys of the process that made `bytes`.
    pub fn from_bytes(bytes: &[u8; TICKETS_BYTES]) -> Tickets {
        let (mut period, mut seed, mut previous) = ([0; 8], [0; 32], [0; KEY_BYTES]);
        period.copy_from_slice(&bytes[..8]);
        seed.copy_from_slice(&bytes[8..40]);
        previous.copy_from_slice(&bytes[40..]);
        let keys = Keys::begin(seed, u64::from_be_bytes(period));
        Tickets::of(Keys { previous: TicketKey(previous), ..keys })
    }

    fn of(keys: Keys) -> Tickets {
        Tickets {
            keys: RwLock::new(keys),
            #[cfg(test)]
            ahead_seconds: AtomicU64::new(0),
        }
    }

    /// A digest of `text` by the key of now, and the one by the key before, which are the same in all processes with
    /// these keys. Nobody else can make them, or say what they are of. They say nothing about tickets.
    pub fn digests(&self, text: &[u8]) -> [[u8; 16]; 2] {
        let keys = self.at(self.now());
        [keys.current, keys.previous].map(|key| key.digest(text))
    }

    /// Seconds since 1970.
    fn now(&self) -> u64 {
        #[cfg(test)]
        return unix_ms() / 1000 + self.ahead_seconds.load(Relaxed);
        #[cfg(not(test))]
        return unix_ms() / 1000;
    }

    /// The clock is so much ahead.
    #[cfg(test)]
    pub(super) fn put_ahead(&self, seconds: u64) {
        self.ahead_seconds.store(seconds, Relaxed);
    }

    /// The bytes from which another process gets the same keys. Secret.
    pub fn to_bytes(&self) -> [u8; TICKETS_BYTES] {
        self.bytes_at(self.now())
    }

    fn bytes_at(&self, unix_seconds: u64) -> [u8; TICKETS_BYTES] {
        let keys = self.at(unix_seconds);
        let mut bytes = [0; TICKETS_BYTES];
        bytes[..8].copy_from_slice(&keys.period.to_be_bytes());
        bytes[8..40].copy_from_slice(&keys.seed);
        bytes[40..].copy_from_slice(&keys.previous.0);
        bytes
    }

    /// The keys at a time, which is never earlier than the last.
    fn at(&self, unix_seconds: u64) -> Keys {
        let period = unix_seconds / PERIOD_SECONDS;
        {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            if keys.is_current(period) {
                return keys.clone();
            }
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        while !keys.is_current(period) {
            keys.step();
        }
        keys.clone()
    }

    fn encrypt_at(&self, plain: &[u8], binding: &Binding, unix_seconds: u64) -> Option<Vec<u8>> {
        self.at(unix_seconds).current.encrypt(plain, binding)
    }

    fn decrypt_at(&self, ticket: &[u8], binding: &Binding, unix_seconds: u64) -> Option<Vec<u8>> {
        let keys = self.at(unix_seconds);
        keys.current.decrypt(ticket, binding).or_else(|| keys.previous.decrypt(ticket, binding))
    }

    /// Tickets of these keys for the certificate with this digest.
    pub(super) fn bound_to(self: &Arc<Self>, binding: Binding) -> BoundTickets {
        BoundTickets { tickets: self.clone(), binding }
    }
}

/// Tickets that are good for one certificate: those of another are none here.
#[derive(Clone, Debug)]
pub struct BoundTickets {
    tickets: Arc<Tickets>,
    binding: Binding,
}

impl BoundTickets {
    /// Those that a client is given in one handshake, and may bring.
    pub(super) fn for_handshake(&self) -> HandshakeTickets {
        HandshakeTickets { tickets: self.clone(), since: AtomicU64::new(WHOLE) }
    }
}

/// The tickets of one handshake.
#[derive(Debug)]
pub struct HandshakeTickets {
    tickets: BoundTickets,
    /// When the client's last whole handshake was, in seconds since 1970; [`WHOLE`] in one that is whole itself.
    since: AtomicU64,
}

/// Later than any time.
const WHOLE: u64 = u64::MAX;

impl HandshakeTickets {
    fn since(&self, now: u64) -> u64 {
        match self.since.load(Relaxed) {
            WHOLE => now,
            since => since,
        }
    }
}

impl ProducesTickets for HandshakeTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        let now = self.tickets.tickets.now();
        let age = now.saturating_sub(self.since(now));
        AGE_SECONDS_MAX.saturating_sub(age).min(PERIOD_SECONDS) as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let BoundTickets { tickets, binding } = &self.tickets;
        let now = tickets.now();
        let timed = [&self.since(now).to_be_bytes(), plain].concat();
        tickets.encrypt_at(&timed, binding, now)
    }

    /// None for one of a handshake that was too long ago, or is said to be yet to come.
    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let BoundTickets { tickets, binding } = &self.tickets;
        let now = tickets.now();
        let timed = tickets.decrypt_at(cipher, binding, now)?;
        let (since, plain) = timed.split_first_chunk::<TIME_BYTES>()?;
        let since = u64::from_be_bytes(*since);
        let is_good = since <= now + CLOCKS_DIFFER_SECONDS && now.saturating_sub(since) <= AGE_SECONDS_MAX;
        // Of several that a client offers one is taken: the oldest tells, whichever that is.
        is_good.then(|| {
            self.since.fetch_min(since, Relaxed);
            plain.to_vec()
        })
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tickets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: Binding = [1; 32];
    const START: u64 = 1000 * PERIOD_SECONDS;

    fn tickets(seed: u8) -> Tickets {
        Tickets::of(Keys::begin([seed; 32], 1000))
    }

    #[test]
    fn a_ticket_is_read_until_its_keys_are_two_periods_old() {
        let tickets = tickets(1);
        let ticket = tickets.encrypt_at(b"secret", &OWN, START).unwrap();
        for later in [0, 1, PERIOD_SECONDS, 2 * PERIOD_SECONDS - 1] {
            assert_eq!(tickets.decrypt_at(&ticket, &OWN, START + later).as_deref(), Some(&b"secret"[..]), "{later}");
        }
        assert_eq!(tickets.decrypt_at(&ticket, &OWN, START + 2 * PERIOD_SECONDS), None);
    }

    #[test]
    fn processes_with_the_same_bytes_read_each_other_s_tickets_at_any_time() {
        let first = tickets(2);
        let before = first.encrypt_at(b"before", &OWN, START + 3 * PERIOD_SECONDS).unwrap();
        let second = Tickets::from_bytes(&first.bytes_at(START + 4 * PERIOD_SECONDS));
        assert_eq!(second.decrypt_at(&before, &OWN, START + 4 * PERIOD_SECONDS).as_deref(), Some(&b"before"[..]));
        for periods in [4, 5, 9] {
            let now = START + periods * PERIOD_SECONDS;
            let ticket = second.encrypt_at(b"after", &OWN, now).unwrap();
            assert_eq!(first.decrypt_at(&ticket, &OWN, now).as_deref(), Some(&b"after"[..]));
        }
    }

    #[test]
    fn bytes_are_those_of_the_keys() {
        let tickets = Tickets::new().unwrap();
        let copy = Tickets::from_bytes(&tickets.to_bytes());
        let of = |tickets: Tickets| Arc::new(tickets).bound_to(OWN).for_handshake();
        let ticket = of(tickets).encrypt(b"content").unwrap();
        assert_eq!(of(copy).decrypt(&ticket).as_deref(), Some(&b"content"[..]));
        assert_eq!(of(Tickets::new().unwrap()).decrypt(&ticket), None, "others cannot read it");
    }

    #[test]
    fn a_ticket_of_one_certificate_is_none_of_another() {
        let tickets = Arc::new(tickets(6));
        let (one, other) = (tickets.bound_to(OWN).for_handshake(), tickets.bound_to([2; 32]).for_handshake());
        let ticket = one.encrypt(b"content").unwrap();
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"content"[..]));
        assert_eq!(other.decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_says_when_the_whole_handshake_was_however_often_it_was_renewed() {
        let tickets = Arc::new(Tickets::new().unwrap());
        let bound = tickets.bound_to(OWN);
        const HOUR: u64 = 60 * 60;
        let mut ticket = bound.for_handshake().encrypt(b"content").unwrap();
        let mut now = 0;
        // The last one is a little late.
        for later in [5 * HOUR, 5 * HOUR, 5 * HOUR, 5 * HOUR, 4 * HOUR - 60] {
            now += later;
            tickets.put_ahead(now);
            let handshake = bound.for_handshake();
            assert_eq!(handshake.lifetime(), PERIOD_SECONDS as u32, "before anything is known of the client");
            assert_eq!(handshake.decrypt(&ticket).as_deref(), Some(&b"content"[..]), "after {now} seconds");
            let left = AGE_SECONDS_MAX - now;
            assert!(u64::from(handshake.lifetime()) <= left.min(PERIOD_SECONDS));
            ticket = handshake.encrypt(b"content").unwrap();
        }
        tickets.put_ahead(AGE_SECONDS_MAX + 60);
        assert_eq!(bound.for_handshake().decrypt(&ticket), None);
        let again = bound.for_handshake().encrypt(b"content").unwrap();
        assert!(bound.for_handshake().decrypt(&again).is_some());
        // The clock is put back.
        tickets.put_ahead(0);
        assert_eq!(bound.for_handshake().decrypt(&again), None);
    }

    #[test]
    fn what_is_kept_does_not_lead_back_to_earlier_keys() {
        let tickets = tickets(3);
        let old = tickets.at(START);
        let ticket = tickets.encrypt_at(b"old", &OWN, START).unwrap();
        tickets.at(START + 5 * PERIOD_SECONDS);
        let kept = Tickets::from_bytes(&tickets.bytes_at(START + 5 * PERIOD_SECONDS));
        assert_eq!(kept.decrypt_at(&ticket, &OWN, START), None, "nor by a clock that is put back");
        assert!(kept.at(START).seed != old.seed);
    }

    #[test]
    fn a_clock_far_ahead_leaves_the_keys_alone() {
        let tickets = tickets(4);
        let ticket = tickets.encrypt_at(b"now", &OWN, START).unwrap();
        assert!(tickets.decrypt_at(&ticket, &OWN, START + (STEPS_MAX + 2) * PERIOD_SECONDS).is_some());
    }

    proptest! {
        #[test]
        fn a_changed_ticket_is_none(at in 0_usize..40, bit in 0_u32..8, cut in 0_usize..60) {
            let tickets = tickets(5);
            let mut ticket = tickets.encrypt_at(b"secret", &OWN, START).unwrap();
            let length = ticket.len();
            ticket[at % length] ^= 1 << bit;
            ticket.truncate(cut);
            prop_assert_eq!(tickets.decrypt_at(&ticket, &OWN, START), None);
        }
    }
}
