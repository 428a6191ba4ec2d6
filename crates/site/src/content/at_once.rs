//! Concurrency limits for expensive work: so many in each process, and so many of each client network.
//!
//! Owns: [`AtOnce`], which counts one kind, and [`Permit`], by which one piece of work counts until it ends.
//! Guarantees: no caller waits; work counts no more once it has ended, however it ended; memory is bounded by what may
//! be under way. Clients that are not known by their network (Unix sockets, proxies that do not say for whom they ask)
//! are held by the number of all.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A client network: a /32 of IPv4, or a /64 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientNetwork(bool, u64);

impl ClientNetwork {
    /// That of an address.
    pub fn of(client: IpAddr) -> ClientNetwork {
        match client.to_canonical() {
            IpAddr::V4(address) => ClientNetwork(false, u64::from(address.to_bits())),
            IpAddr::V6(address) => ClientNetwork(true, (address.to_bits() >> 64) as u64),
        }
    }

    /// Its family and its address: the same bytes in every process and after every restart.
    pub(super) fn to_bytes(self) -> [u8; 9] {
        let [a, b, c, d, e, f, g, h] = self.1.to_be_bytes();
        [u8::from(self.0), a, b, c, d, e, f, g, h]
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ClientNetwork(false, bits) => write!(formatter, "{}", Ipv4Addr::from_bits(bits as u32)), // It is from one.
            ClientNetwork(true, bits) => write!(formatter, "{}/64", Ipv6Addr::from_bits(u128::from(bits) << 64)),
        }
    }
}

/// Counter of one kind of work.
#[derive(Debug)]
pub(super) struct AtOnce {
    most: usize,
    most_of_party: usize,
    under_way: Mutex<Vec<Option<ClientNetwork>>>,
}

/// The place of one piece of work in the count. It ends with the value.
#[derive(Debug)]
pub(super) struct Permit(&'static AtOnce, Option<ClientNetwork>);

/// There is as much under way as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl AtOnce {
    /// At most so many, and so many of a network.
    pub(super) const fn new(most: usize, most_of_party: usize) -> AtOnce {
        AtOnce { most, most_of_party, under_way: Mutex::new(Vec::new()) }
    }

    /// One more, for a client of this network if that is known.
    ///
    /// # Errors
    /// There are enough.
    pub(super) fn begin(&'static self, of: Option<ClientNetwork>) -> Result<Permit, Full> {
        let mut under_way = self.lock();
        let own = under_way.iter().filter(|one| of.is_some() && **one == of).count();
        if under_way.len() >= self.most || own >= self.most_of_party {
            return Err(Full);
        }
        under_way.push(of);
        Ok(Permit(self, of))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<ClientNetwork>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut under_way = self.0.lock();
        if let Some(at) = under_way.iter().position(|one| *one == self.1) {
            under_way.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_a_network_and_so_many_of_all_and_another_when_one_has_ended() {
        static KIND: AtOnce = AtOnce::new(3, 2);
        let begin = |address: &str| KIND.begin(address.parse().ok().map(ClientNetwork::of));
        let own = [begin("192.0.2.1"), begin("192.0.2.1")];
        assert!(own.iter().all(Result::is_ok) && begin("192.0.2.1").is_err());
        let other = begin("2001:db8::1");
        assert!(other.is_ok() && begin("2001:db8::2").is_err() && begin("").is_err());
        drop(own);
        // Who is not known has no network.
        let nobodies = [begin(""), begin("")];
        assert!(nobodies.iter().all(Result::is_ok) && begin("").is_err());
        drop((other, nobodies));
        assert!(KIND.lock().is_empty());
    }
}
