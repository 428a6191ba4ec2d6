//! A program with a cache policy of its own: CLOCK, the example of `lamna-policy`. docs/extending.md leads through it.
//!
//!     cargo run -p lamna-server --example own_cache_policy -- site

#[path = "../../policy/examples/own_policy/clock.rs"]
mod clock;

use clock::Clock;
use lamna_server::embed::{Builder, StartError};

fn main() -> Result<(), StartError> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let server = of(&directory).listen(([127, 0, 0, 1], 8080)).start()?;
    println!("serving {directory} at http://{}/", server.address());
    server.wait();
    Ok(())
}

fn of(directory: &str) -> Builder {
    Builder::new(directory).cache_policy(|_bound_bytes, _objective| Box::new(Clock::default()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use lamna_policy::cache::{ObjectId, Removal, Replacement};

    use super::*;

    const FILES: usize = 300;
    const FILE_BYTES: usize = 8 << 10;

    fn site() -> tempfile::TempDir {
        let site = tempfile::tempdir().expect("there is room for one");
        for number in 0..FILES {
            std::fs::write(site.path().join(number.to_string()), vec![b'x'; FILE_BYTES]).expect("it can be written");
        }
        site
    }

    fn get_all(address: SocketAddr) {
        for number in 0..FILES {
            let mut stream = TcpStream::connect(address).expect("it listens");
            let request = format!("GET /{number} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("it takes requests");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("it answers");
            assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > FILE_BYTES);
        }
    }

    /// Counts what goes; `names` is whether it says what that is.
    struct Counted {
        clock: Clock,
        evicted: Arc<AtomicUsize>,
        names: bool,
    }

    impl Replacement for Counted {
        fn admit(&mut self, object: ObjectId, size_bytes: u64) {
            self.clock.admit(object, size_bytes);
        }

        fn hit(&mut self, object: ObjectId) {
            self.clock.hit(object);
        }

        fn memory_bytes(&self) -> usize {
            self.clock.memory_bytes()
        }

        fn victim(&mut self) -> Option<ObjectId> {
            self.clock.victim().filter(|_| self.names)
        }

        fn remove(&mut self, object: ObjectId, removal: Removal) {
            self.evicted.fetch_add(usize::from(removal == Removal::Evicted), Relaxed);
            self.clock.remove(object, removal);
        }

        fn len(&self) -> usize {
            self.clock.len()
        }

        fn holds(&self, object: ObjectId) -> bool {
            self.clock.holds(object)
        }
    }

    /// How many entries had to go for all files, twice, in a cache that has room for a part of them.
    fn evicted(names: bool) -> usize {
        let (site, evicted) = (site(), Arc::new(AtomicUsize::new(0)));
        let told = evicted.clone();
        let builder = of(&site.path().display().to_string())
            .cache_policy(move |_, _| Box::new(Counted { clock: Clock::default(), evicted: told.clone(), names }));
        let server = builder.settings(|settings| settings.cache_bytes_max = 1 << 20).start().expect("it is served");
        (0..2).for_each(|_| get_all(server.address()));
        server.stop();
        evicted.load(Relaxed)
    }

    #[test]
    fn the_policy_says_what_goes_when_the_cache_is_full() {
        assert!(evicted(true) >= FILES / 2, "{}", evicted(true));
    }

    #[test]
    fn files_are_served_though_the_policy_never_says_what_is_to_go() {
        assert_eq!(evicted(false), 0);
    }
}
