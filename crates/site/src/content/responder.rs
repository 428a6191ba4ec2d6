//! Responders of content, which answer a request by a program in place of the file that its target stands for.
//!
//! Owns: the row of the table ([`Responder`]; the table is [`RESPONDERS`](super::RESPONDERS)), and what a responder is
//! told ([`Incoming`]). Guarantees: the client is found out only if a responder asks for it. Does not let requests in:
//! responders are asked about those that are.

use std::net::IpAddr;

use lamna_proto::exchange::RequestedResource;
use lamna_proto::exchange::program::Program;

use super::at_once::ClientNetwork;
use super::route::Clearance;
use super::site::Site;
use super::upload::Resources;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Responder {
    /// Its name in a trace.
    pub name: &'static str,
    /// The program that answers a request; none if the request is not for it. Reads nothing from the disk and waits for
    /// nothing: that is for the steps of the program.
    pub begin: fn(&Incoming<'_>) -> Option<Box<dyn Program>>,
}

/// A request that has been let in.
#[derive(Clone, Copy)]
pub struct Incoming<'r> {
    /// The site that it is for.
    pub site: &'r Site,
    /// Its parts.
    pub requested: &'r RequestedResource<'r>,
    /// The server's resources.
    pub resources: Resources<'r>,
    /// Its client.
    pub client: &'r dyn Fn() -> Client,
}

/// The client of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Its address, if that is known.
    pub address: Option<IpAddr>,
    /// The network that its work counts for; none for a proxy that does not name its client.
    pub network: Option<ClientNetwork>,
    /// The rules of access that it fulfils.
    pub clearance: Clearance,
}
