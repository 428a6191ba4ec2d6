//! A client of HTTP/2 for the tests, which compresses and reads headers by another implementation than ours.
//!
//! Owns: writing frames, and reading what came back. Checks that what comes back is in the form of RFC 9113, and
//! nothing else.

use std::collections::BTreeMap;

use crate::peer::{Habits, Peer};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// What came back on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    /// Of the interim answers.
    pub(crate) interim: Vec<String>,
    /// The fields of these.
    pub(crate) interim_fields: Vec<(String, String)>,
    pub(crate) status: String,
    /// In their order, without the status.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) ended: bool,
    pub(crate) reset: Option<u32>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }
}

/// The client, and the connection at whose other end it is.
pub(crate) struct Client {
    pub(crate) peer: Peer,
    encoder: httlib_hpack::Encoder<'static>,
    decoder: httlib_hpack::Decoder<'static>,
    unread: Vec<u8>,
    pub(crate) streams: BTreeMap<u32, Response>,
    /// The order in which content arrived: the stream of each DATA frame.
    pub(crate) order: Vec<u32>,
    /// The payloads of the PINGs that came back.
    pub(crate) pongs: Vec<Vec<u8>>,
    /// Those that were asked of us.
    pub(crate) pings: Vec<Vec<u8>>,
    /// The last stream and the error of each GOAWAY.
    pub(crate) goaways: Vec<(u32, u32)>,
    /// Of each stream, and what it is opened by.
    pub(crate) updates: Vec<(u32, u32)>,
    pub(crate) settings: Vec<(u16, u32)>,
    pub(crate) settings_acks: usize,
}

impl Client {
    /// One that has greeted, and has been greeted.
    pub(crate) fn new(habits: Habits) -> Client {
        let mut client = Client::silent(habits);
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat());
        client
    }

    /// One that has sent nothing.
    pub(crate) fn silent(habits: Habits) -> Client {
        Client {
            peer: Peer::new(habits),
            encoder: httlib_hpack::Encoder::with_dynamic_size(4096),
            decoder: httlib_hpack::Decoder::with_dynamic_size(4096),
            unread: Vec::new(),
            streams: BTreeMap::new(),
            order: Vec::new(),
            pongs: Vec::new(),
            pings: Vec::new(),
            goaways: Vec::new(),
            updates: Vec::new(),
            settings: Vec::new(),
            settings_acks: 0,
        }
    }

    /// Sends bytes, and reads what comes back.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> &mut Client {
        self.peer.send(bytes);
        self.read()
    }

    /// Lets everything happen that is to happen.
    pub(crate) fn settle(&mut self) -> &mut Client {
        self.peer.settle();
        self.read()
    }

    /// A block of these fields.
    pub(crate) fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            let form = httlib_hpack::Encoder::BEST_FORMAT | httlib_hpack::Encoder::WITH_INDEXING;
            let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec(), form);
            self.encoder.encode(field, &mut block).expect("any field can be encoded");
        }
        block
    }

    /// HEADERS of a request without content.
    pub(crate) fn request(&mut self, id: u32, method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
        self.headers(id, END_STREAM, method, path, more)
    }

    pub(crate) fn headers(&mut self, id: u32, flags: u8, method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "www.example.com")];
        let block = self.block(&[&fields, more].concat());
        frame(HEADERS, END_HEADERS | flags, id, &block)
    }

    /// Sends a request and gives the answer.
    pub(crate) fn ask(&mut self, id: u32, method: &str, path: &str, more: &[(&str, &str)]) -> Response {
        let request = self.request(id, method, path, more);
        self.send(&request).settle();
        self.streams[&id].clone()
    }

    /// Opens windows for good.
    pub(crate) fn open_windows(&mut self) -> &mut Client {
        let settings = frame(SETTINGS, 0, 0, &setting(4, 1 << 30));
        self.send(&[settings, frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes())].concat())
    }

    fn read(&mut self) -> &mut Client {
        self.unread.append(&mut self.peer.output);
        let mut at = 0;
        let mut block: Option<(u32, u8, Vec<u8>)> = None;
        while let Some(head) = self.unread[at..].first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags, id) = (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
            let Some(payload) = self.unread[at + 9..].get(..length) else { break };
            assert!(length <= 16_384, "a frame is no larger than was allowed");
            let payload = payload.to_vec();
            assert!(block.is_none() || kind == CONTINUATION, "nothing stands between the parts of a block");
            let (first, second) = (word(&payload, 0), word(&payload, 4));
            match kind {
                DATA => {
                    let response = self.streams.get_mut(&id).expect("HEADERS come before DATA");
                    assert!(
                        !response.ended && response.reset.is_none() && !response.status.is_empty(),
                        "stream {id} goes on"
                    );
                    response.content.extend_from_slice(&payload);
                    response.ended = flags & END_STREAM != 0;
                    self.order.push(id);
                }
                HEADERS => block = Some((id, flags, payload)),
                CONTINUATION => {
                    let (of, first_flags, bytes) = block.as_mut().expect("CONTINUATION goes on with a block");
                    assert_eq!(*of, id);
                    bytes.extend_from_slice(&payload);
                    *first_flags |= flags & END_HEADERS;
                }
                RST_STREAM => self.streams.entry(id).or_default().reset = Some(first),
                SETTINGS if flags & ACK != 0 => self.settings_acks += 1,
                SETTINGS => {
                    let (settings, _) = payload.as_chunks::<6>();
                    self.settings
                        .extend(settings.iter().map(|one| (u16::from_be_bytes([one[0], one[1]]), word(one, 2))));
                }
                PING if flags & ACK != 0 => self.pongs.push(payload),
                PING => self.pings.push(payload),
                GOAWAY => self.goaways.push((first, second)),
                WINDOW_UPDATE => self.updates.push((id, first)),
                other => panic!("a server does not send {other}"),
            }
            if let Some((id, flags, bytes)) = block.take_if(|(_, flags, _)| *flags & END_HEADERS != 0) {
                self.read_block(id, flags, bytes);
            }
            at += 9 + length;
        }
        self.unread.drain(..at);
        self
    }

    fn read_block(&mut self, id: u32, flags: u8, mut bytes: Vec<u8>) {
        let mut fields = Vec::new();
        self.decoder.decode(&mut bytes, &mut fields).expect("blocks can be decoded");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("fields are ASCII");
        let mut fields = fields.into_iter().map(|(name, value, _)| (text(name), text(value)));
        let response = self.streams.entry(id).or_default();
        assert!(!response.ended && response.reset.is_none(), "stream {id} goes on");
        if !response.status.is_empty() {
            response.trailers = fields.collect();
            assert!(flags & END_STREAM != 0, "one final answer for a stream");
            assert!(response.trailers.iter().all(|(name, _)| !name.starts_with(':')), "{:?}", response.trailers);
            response.ended = true;
            return;
        }
        let (status, value) = fields.next().expect("there is a status");
        assert_eq!(status, ":status");
        if value.starts_with('1') {
            response.interim_fields.extend(fields);
            return response.interim.push(value);
        }
        response.status = value;
        response.fields = fields.collect();
        response.ended = flags & END_STREAM != 0;
        for (name, _) in &response.fields {
            assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()) && !name.starts_with(':'), "{name}");
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &id.to_be_bytes(), payload].concat()
}

/// One setting.
pub(crate) fn setting(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}
