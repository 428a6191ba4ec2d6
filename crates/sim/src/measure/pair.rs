//! How fast two processors are together: a second yardstick, beside the one that each processor has by itself.
//!
//! Owns: a load and an answerer that do nothing else, on two processors, neither of which ever sleeps. Guarantees: some ten
//! milliseconds, and no thread or socket afterwards. On a virtual machine what one processor wrote and another one reads takes
//! another time when the host puts them elsewhere, and content goes that way with each answer.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::load::Target;
use super::server::confined;

/// Connections between them: enough that neither side waits for the other.
const CONNECTIONS: usize = 16;
const RESPONSE: [u8; 700] = [b'x'; 700];
const LENGTH: Duration = Duration::from_millis(10);

/// Time of an exchange between the first of `processors` and the last, in microseconds. 0 if there is one only.
///
/// # Errors
/// No sockets, no thread.
pub(super) fn exchange_us(processors: usize) -> io::Result<f64> {
    if processors < 2 {
        return Ok(0.0);
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (mut asking, mut answering) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        asking.push(TcpStream::connect(listener.local_addr()?)?);
        answering.push(listener.accept()?.0);
    }
    for socket in asking.iter().chain(&answering) {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let answerer = thread::Builder::new()
            .spawn_scoped(scope, || confined(&[0], || answer(&mut answering, &is_over)))
            .inspect_err(|_| is_over.store(true, Relaxed))?;
        let us = confined(&[processors - 1], || ask(&mut asking));
        is_over.store(true, Relaxed);
        answerer.join().map_err(|_| io::Error::other("the answerer panicked"))??;
        us
    })
}

fn ask(connections: &mut [TcpStream]) -> io::Result<f64> {
    let request = Target::get("/f500", 0).request;
    connections.iter_mut().try_for_each(|connection| connection.write_all(&request))?;
    let (began, mut answered) = (Instant::now(), 0_u32);
    while began.elapsed() < LENGTH {
        for connection in connections.iter_mut() {
            if has_come(connection)? {
                answered += 1;
                connection.write_all(&request)?;
            }
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(answered.max(1)))
}

fn answer(connections: &mut [TcpStream], is_over: &AtomicBool) -> io::Result<()> {
    while !is_over.load(Relaxed) {
        for connection in connections.iter_mut() {
            if has_come(connection)? {
                connection.write_all(&RESPONSE)?;
            }
        }
    }
    Ok(())
}

/// Whether something has, without waiting. It comes in one piece, being less than a segment.
fn has_come(connection: &mut TcpStream) -> io::Result<bool> {
    match connection.read(&mut [0; 1024]) {
        Ok(bytes) => Ok(bytes > 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_takes_time_if_there_are_two_to_make_it() {
        assert_eq!(exchange_us(1).unwrap(), 0.0);
        let processors = crate::measure::trial::processors();
        assert_eq!(exchange_us(processors).unwrap() > 0.0, processors > 1);
    }
}
