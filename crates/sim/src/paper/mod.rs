//! The figures and claims of the PIPELINED paper (2005), from the models and the one parameter set of its Tables 2 and
//! 3.
//!
//! Nothing here knows a result: [`mod@figures`] lists scenarios, [`mod@claims`] reads outcomes. A claim that does not
//! hold is reported as such. What the paper leaves open is settled the same way for all figures by a [`Reading`];
//! readings are compared with each other, never chosen per figure.

mod claims;
mod figures;
mod files;

pub use claims::{Claim, Verdict, claims, claims_csv, claims_markdown};
pub use figures::{Figure, Figures, data_cache_csv, data_cache_panels, figures, panels};
pub use files::{Experiments, write_claims, write_figures};

use std::str::FromStr;

use crate::parameters::{DataCopies, Parameters, TransmitBy};
use crate::resource::Handover;

/// One way to settle what the paper does not say, or says in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Tables and definitions to the letter: content exists once and structures once in each process (Table 1), and the
    /// transmit latency is the network's (section 5.1).
    Letter,
    /// Content too exists once in each process, which has its share of the memory to itself: what section 4 says of
    /// SPED and AMPED, and 3.2 of MP.
    Private,
    /// Content exists once in each process of MP ("each process should have its own data cache. Thus, the data cache
    /// size per process reduces accordingly", section 3.2, of MP only), and once in the others (Table 1).
    PrivateMp,
    /// Locks are granted to the first waiter, as a queue at a lock is in a simple model.
    Granted,
    /// The transmit latency is a processor's, as in the simulations the paper builds upon.
    Processor,
    /// `Processor` and `Private` together.
    ProcessorPrivate,
    /// `PrivateMp`, and the transmit latency is a processor's, of the average Web file of 15 KBytes (section 3.3) for
    /// each request, since the paper gives the sizes of files but not those of requests.
    Average,
}

impl Reading {
    /// All of them; the first is the main one.
    pub const ALL: [Reading; 7] = [
        Reading::Letter,
        Reading::Private,
        Reading::PrivateMp,
        Reading::Granted,
        Reading::Processor,
        Reading::ProcessorPrivate,
        Reading::Average,
    ];

    /// As in commands and folders.
    pub fn name(self) -> &'static str {
        match self {
            Reading::Letter => "letter",
            Reading::Private => "private",
            Reading::PrivateMp => "private-mp",
            Reading::Average => "average",
            Reading::Granted => "granted",
            Reading::Processor => "processor",
            Reading::ProcessorPrivate => "processor-private",
        }
    }

    /// The paper's parameters under this reading.
    pub fn parameters(self) -> Parameters {
        let mut parameters = Parameters::paper();
        if matches!(self, Reading::Private | Reading::ProcessorPrivate) {
            parameters.memory.data_copies = DataCopies::Private;
        }
        if matches!(self, Reading::Processor | Reading::ProcessorPrivate) {
            parameters.costs.transmit_by = TransmitBy::Processor;
        }
        if matches!(self, Reading::PrivateMp | Reading::Average) {
            parameters.memory.data_copies = DataCopies::PrivateMp;
        }
        if self == Reading::Average {
            let costs = &mut parameters.costs;
            let units = parameters.memory.file_bytes_mean.div_ceil(costs.transmit_unit_bytes);
            (costs.header_us, costs.transmit_us) = (costs.transmit_us * units as f64, 0.0);
            costs.transmit_by = TransmitBy::Processor;
        }
        if self == Reading::Granted {
            parameters.locks.handover = Handover::Grant;
        }
        parameters.name = format!("{}/{}", parameters.name, self.name());
        parameters
    }
}

impl FromStr for Reading {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let unknown = || format!("no reading is called `{name}`; there are {}", names());
        Self::ALL.into_iter().find(|reading| reading.name() == name).ok_or_else(unknown)
    }
}
