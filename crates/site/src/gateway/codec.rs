//! The protocol spoken with an application: the request to bytes, and the answer from bytes.
//!
//! Owns: [`Codec`], the choice between the codecs of `lamna_proto::gateway`, for one request on one connection.
//! Guarantees: what they do.

use lamna_config::gateway::GatewayProtocol;
use lamna_proto::gateway::fields::may_trail;
use lamna_proto::gateway::http1::{self, Asked, ContentWriter, LengthError};
use lamna_proto::gateway::{AnswerStep, GatewayError, RequestContent, cgi, fastcgi};

/// One request, and the answer to it.
#[derive(Debug)]
pub(super) enum Codec {
    /// HTTP/1.1.
    Http { content: ContentWriter, answer: http1::AnswerReader },
    /// FastCGI.
    FastCgi { content: fastcgi::StdinWriter, answer: fastcgi::AnswerReader },
    /// SCGI or uwsgi: content without framing, and an answer to the end of the connection.
    Stream { content: ContentWriter, answer: cgi::StreamReader },
}

impl Codec {
    /// For a request with this content, on a connection that may be kept. All but HTTP have to know its length: of
    /// content whose length is not known nothing is taken.
    pub(super) fn new(protocol: GatewayProtocol, content: RequestContent, asked: &Asked, keeps: bool) -> Codec {
        let bytes = if let RequestContent::Sized(bytes) = content { bytes } else { 0 };
        match protocol {
            GatewayProtocol::Http => {
                let answer = http1::AnswerReader::new(asked.clone());
                Codec::Http { content: ContentWriter::new(content), answer }
            }
            GatewayProtocol::FastCgi => {
                let answer = fastcgi::AnswerReader::new(asked.is_head, keeps);
                Codec::FastCgi { content: fastcgi::StdinWriter::new(bytes), answer }
            }
            GatewayProtocol::Scgi | GatewayProtocol::Uwsgi => {
                let answer = cgi::StreamReader::new(asked.is_head);
                Codec::Stream { content: ContentWriter::new(RequestContent::Sized(bytes)), answer }
            }
        }
    }

    /// Appends a piece of content to what is sent.
    ///
    /// # Errors
    /// It is more than was announced.
    pub(super) fn write_content(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), LengthError> {
        match self {
            Codec::Http { content, .. } | Codec::Stream { content, .. } => {
                let (before, behind) = content.piece(bytes.len() as u64)?;
                out.extend_from_slice(before.as_ref());
                out.extend_from_slice(bytes);
                out.extend_from_slice(behind);
            }
            Codec::FastCgi { content, .. } => {
                let mut rest = bytes;
                while let Some(record) = content.piece(rest.len())? {
                    out.extend_from_slice(&record.header);
                    out.extend_from_slice(&rest[..record.bytes]);
                    rest = &rest[record.bytes..];
                }
            }
        }
        Ok(())
    }

    /// Appends the end of the content.
    ///
    /// # Errors
    /// It is less than was announced.
    pub(super) fn end_content(&mut self, out: &mut Vec<u8>) -> Result<(), LengthError> {
        match self {
            Codec::Http { content, .. } | Codec::Stream { content, .. } if content.is_ended() => {}
            Codec::Http { content, .. } | Codec::Stream { content, .. } => {
                out.extend_from_slice(content.end()?.as_ref())
            }
            Codec::FastCgi { content, .. } if content.is_ended() => {}
            Codec::FastCgi { content, .. } => out.extend_from_slice(&content.end()?),
        }
        Ok(())
    }

    /// The next thing that the application has said.
    ///
    /// # Errors
    /// It is not an answer.
    pub(super) fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        match self {
            Codec::Http { answer, .. } => answer.read(input),
            Codec::FastCgi { answer, .. } => answer.read(input),
            Codec::Stream { answer, .. } => answer.read(input),
        }
    }

    /// The application has closed the connection.
    ///
    /// # Errors
    /// The answer is not whole.
    pub(super) fn handle_end(&mut self) -> Result<(), GatewayError> {
        match self {
            Codec::Http { answer, .. } => answer.handle_end(),
            Codec::FastCgi { answer, .. } => answer.handle_end(),
            Codec::Stream { answer, .. } => answer.handle_end(),
        }
    }

    /// The buffer is full, and what is in it is not enough.
    pub(super) fn handle_full(&mut self) -> GatewayError {
        match self {
            Codec::Http { answer, .. } => answer.handle_full(),
            // A record fits, and what it begins is kept by the reader.
            Codec::FastCgi { .. } => GatewayError::Record,
            // The reader keeps the head, and content is taken as it comes.
            Codec::Stream { .. } => GatewayError::HeadTooLong,
        }
    }

    /// Whether anything of an answer has come.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Codec::Http { answer, .. } => answer.has_begun(),
            Codec::FastCgi { answer, .. } => answer.has_begun(),
            Codec::Stream { answer, .. } => answer.has_begun(),
        }
    }

    /// Whether more than the announced content has come with an answer that has ended, or `is_input_left` behind it.
    pub(super) fn has_surplus(&self, is_input_left: bool) -> bool {
        match self {
            Codec::Http { .. } | Codec::Stream { .. } => is_input_left,
            Codec::FastCgi { answer, .. } => answer.surplus_bytes() > 0,
        }
    }

    /// Whether the connection can carry another request.
    pub(super) fn is_reusable(&self, is_input_left: bool) -> bool {
        match self {
            Codec::Http { content, answer } => answer.is_reusable(content.is_ended(), is_input_left),
            Codec::FastCgi { content, answer } => answer.is_reusable(content.is_ended(), is_input_left),
            Codec::Stream { .. } => false,
        }
    }

    /// Appends the trailer fields of an answer that has ended, as lines, as far as they may be passed on.
    pub(super) fn write_trailers(&self, out: &mut Vec<u8>) {
        let Codec::Http { answer, .. } = self else { return };
        for (name, value) in answer.trailers().iter().filter(|(name, _)| may_trail(name)) {
            [name, b": ", value, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
        }
    }
}
