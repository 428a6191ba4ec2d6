//! Whether it matters for copying to a socket where in memory an answer lies (Flash 5.5, which padded heads to
//! multiples of 32 bytes).
//!
//!     cargo run --release -p lamna-server --example alignment
//!
//! Prints nanoseconds for giving messages to a TCP socket on loopback with one send, as the cache's contiguous buffers
//! are, and with two slices, as content behind other answers is: for each place of the content modulo 64, with heads of
//! 320 bytes and of lengths that are no multiple of anything. What is received is thrown away without being copied.

use std::io::IoSlice;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

const HEADS: [usize; 4] = [320, 321, 328, 339];
const CONTENTS: [usize; 3] = [500, 10_000, 60_000];
const MESSAGES: usize = 5_000;
const ROUNDS: usize = 5;

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let ours = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (peer, _) = listener.accept().expect("somebody has connected");
    ours.set_nodelay(true).expect("a fresh socket takes options");
    println!("content_bytes,head_bytes,way,content_at_modulo_64,ns");
    for content in CONTENTS {
        for head in HEADS {
            for at in [0, 1, 32] {
                // Heads are where the allocator puts them: at multiples of 16, and content follows. Or content is
                // elsewhere.
                let contiguous =
                    measure(&ours, &peer, content, |buffer| (&buffer[..0], &buffer[at..at + head + content]), head);
                println!("{content},{head},contiguous,{},{contiguous:.0}", (at + head) % 64);
                let gathered = measure(
                    &ours,
                    &peer,
                    content,
                    |buffer| (&buffer[..head], &buffer[4096 + at..4096 + at + content]),
                    head,
                );
                println!("{content},{head},gathered,{at},{gathered:.0}");
            }
        }
    }
}

/// Nanoseconds for each message of a head and a content, which `parts` finds in a buffer that begins at a multiple
/// of 64. The least of some rounds.
fn measure(
    ours: &TcpStream,
    peer: &TcpStream,
    content: usize,
    parts: impl Fn(&[u8]) -> (&[u8], &[u8]),
    head: usize,
) -> f64 {
    let space = vec![b'x'; 4096 + 128 + head + content + 64];
    let skipped = space.as_ptr().align_offset(64);
    let (first, second) = parts(&space[skipped..]);
    let mut thrown_away = vec![0; 1 << 20];
    let mut round = || {
        let mut spent = 0;
        for _ in 0..MESSAGES {
            let begin = Instant::now();
            let slices = [IoSlice::new(first), IoSlice::new(second)];
            let sent = sendmsg(ours, &slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
            spent += begin.elapsed().as_nanos();
            assert_eq!(sent, Ok(head + content), "the socket has room for one message");
            let mut left = head + content;
            while left > 0 {
                let (_, bytes) = recv(peer.as_fd(), &mut thrown_away[..], RecvFlags::TRUNC).expect("it was sent");
                left -= bytes;
            }
        }
        spent as f64 / MESSAGES as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}
