//! The worker and all around it, stepped by the operations of a run.
//!
//! Owns: the way from one worker to the next, the steps that are carried out elsewhere, and the checks.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::slice::Iter;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lamna_config::answer_cache::AnswerCache;
use lamna_config::cache_policy::Policy;
use lamna_config::gateway::{BufferSettings, GatewayProtocol, GatewaySettings, UpstreamSettings};
use lamna_config::route::pattern::Pattern;
use lamna_config::route::{RouteSettings, Switch};
use lamna_config::settings::{ListenAddress, Settings, SiteSettings};
use lamna_config::upstream_address::UpstreamAddress;
use lamna_io::listen;
use lamna_policy::cache::Algorithm;
use lamna_proto::exchange::program::{Input, Program, StepResult};
use lamna_site::cache::Entry;
use lamna_site::content::site::Sites;
use lamna_site::upstream::group::Group;
use lamna_sys::clock::Clock;
use lamna_sys::shared_memory::SharedMemory;

use super::application::{Application, PLACES, pattern};
use super::client::{Client, FILES, address};
use super::dice::Dice;
use super::{Got, Operation};
use crate::worker::context::{FileRange, TranslationTarget, WorkerContext};
use crate::worker::drive::OnSockets;
use crate::worker::event_loop::Worker;
use crate::worker::executor::{Completed, Executor, PendingId, translate_in_line};
use crate::worker::helpers::runners::{self, Step};
use crate::worker::life::Life;
use crate::worker::limiter::{Counted, Limiter};
use crate::worker::migration::handover::HandoverTarget;
use crate::worker::shared::Shared;
use crate::worker::testing;

/// Rounds without any progress after which nothing will come.
const QUIET_ROUNDS_MAX: usize = 1_500;
/// How long a round without progress lasts.
const QUIET_ROUND: Duration = Duration::from_millis(1);
/// Longer than anything is waited for.
const LONG_MS: u64 = 600_000;

/// Runs operations, and comes to the end.
pub(super) fn run(seed: u64, operations: &[Operation]) -> Got {
    let (mut world, mut shared) = World::new(seed);
    let mut operations = operations.iter();
    let mut hands = Hands::InLine;
    loop {
        let mut worker = Worker::new(&shared, 0, Executing { hands, deferred: world.deferred.clone() }).unwrap();
        let next = world.serve(&mut worker, &mut operations);
        let Some(Next { settings, jump_ms, hands: next }) = next else {
            world.settle(&mut worker);
            return world.end(worker, &shared);
        };
        let successor = Arc::new(succeed(&shared, settings.as_ref(), jump_ms));
        world.groups.extend(successor.sites.at(0).routes.groups().iter().cloned());
        shared = world.replace(worker, &shared, successor);
        hands = next;
    }
}

/// The successor of a worker.
struct Next {
    /// Other settings, if they are other ones.
    settings: Option<Settings>,
    jump_ms: u64,
    hands: Hands,
}

struct World {
    clients: Vec<Client>,
    application: Application,
    deferred: Rc<RefCell<Deferred>>,
    server: SocketAddr,
    settings: Settings,
    /// Nothing happens that could cost a client its answer, but for what the client does.
    is_mild: bool,
    counted: Counted,
    /// The applications of all settings so far.
    groups: Vec<Arc<Group>>,
    _root: tempfile::TempDir,
}

/// Where steps that may block are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hands {
    /// At once, as `sped` does.
    InLine,
    /// Elsewhere, as the other engines do: it takes a while.
    Elsewhere,
}

struct Deferred {
    dice: Dice,
    waiting: Vec<Waiting>,
    /// All come back when they are asked for, and not one.
    gives_all: bool,
}

enum Waiting {
    Name(PendingId, TranslationTarget),
    Step(Step),
}

struct Executing {
    hands: Hands,
    deferred: Rc<RefCell<Deferred>>,
}

impl OnSockets for Executing {}

impl Executor for Executing {
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        pending: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        if self.hands == Hands::Elsewhere {
            self.deferred.borrow_mut().waiting.push(Waiting::Name(pending, target));
            return None;
        }
        Some(translate_in_line(context, &target))
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget) {
        translate_in_line(context, &target);
    }

    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        Some(Completed::of_range(shared, pending, &range))
    }

    fn run(
        &mut self,
        pending: PendingId,
        mut program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, StepResult)> {
        if self.hands == Hands::Elsewhere {
            if !input.is_last && program.gather(input.content) {
                return Some((program, StepResult::Continue));
            }
            self.deferred.borrow_mut().waiting.push(Waiting::Step(Step::new(pending, program, input)));
            return None;
        }
        let step_result = runners::run(&mut program, input);
        Some((program, step_result))
    }

    fn completed(&mut self, context: &mut WorkerContext<'_>) -> Vec<Completed> {
        let mut deferred = self.deferred.borrow_mut();
        let Deferred { dice, waiting, gives_all } = &mut *deferred;
        let count = if *gives_all { waiting.len() } else { usize::from(!waiting.is_empty()) };
        let taken: Vec<Waiting> = (0..count).map(|_| waiting.swap_remove(dice.below(waiting.len()))).collect();
        drop(deferred);
        let complete = |one| match one {
            Waiting::Name(pending, target) => Completed::Translated(pending, translate_in_line(context, &target)),
            Waiting::Step(step) => step.carry_out(),
        };
        taken.into_iter().map(complete).collect()
    }
}

// The server.

fn settings(root: &std::path::Path) -> Settings {
    let at = |place: &str| UpstreamAddress::from_str(&format!("unix:{}", root.join(place).display()));
    let gateway = || {
        let upstreams = PLACES.map(|place| UpstreamSettings::new(at(place).expect("it is a place"))).into();
        GatewaySettings::new(GatewayProtocol::Http, upstreams)
    };
    let route = |glob: &str, gateway: GatewaySettings| RouteSettings {
        paths: Pattern::from_glob(glob).expect("it is a pattern"),
        gateway: Switch::Set(gateway),
        ..RouteSettings::default()
    };
    let buffer = BufferSettings { memory_bytes: 5_000, directory: root.into(), ..BufferSettings::default() };
    let routes = vec![
        route("/app/*", gateway()),
        RouteSettings { answer_cache: Switch::Set(AnswerCache::default()), ..route("/kept/*", gateway()) },
        route("/buffered/*", GatewaySettings { buffer: Some(buffer), ..gateway() }),
    ];
    let site = SiteSettings { routes, ..SiteSettings::new(root.to_owned()) };
    Settings {
        sites: vec![site],
        limit_exempt: Vec::new(),
        request_limit: None,
        cache_watch: false,
        h2c: true,
        ..Settings::default()
    }
}

/// Other bounds: wide or narrow ones, whatever is open.
fn bounded(settings: &Settings, dice: &mut Dice) -> Settings {
    let mut bounded = settings.clone();
    bounded.connection_limit = dice.one_of(&[512, 512, 4, 1]);
    bounded.application_limit = dice.one_of(&[500, 500, 3, 1]);
    bounded.network_bytes_max = dice.one_of(&[64 << 20, 64 << 20, 200_000, 20_000]);
    bounded.limits.exchanges_max = dice.one_of(&[64, 8, 1]);
    bounded.limits.held_bytes_max = dice.one_of(&[256 << 10, 30_000, 1]);
    bounded.limits.idle_timeout_ms = dice.one_of(&[60_000, 1_000]);
    bounded
}

/// The same server, with an engine that takes the place of the one of `old`.
fn succeed(old: &Shared, settings: Option<&Settings>, jump_ms: u64) -> Shared {
    let (fresh, _root) = testing::shared(1, 1);
    let clock = Clock::since(old.clock.origin_ms().saturating_sub(jump_ms));
    let (sites, limiter, limits) = match settings {
        Some(settings) => (
            Arc::new(Sites::open(settings).expect("the root is there")),
            old.limiter.with(settings),
            Arc::new(settings.limits.clone()),
        ),
        None => (old.sites.clone(), old.limiter.clone(), old.limits.clone()),
    };
    let (store, listeners) = (old.store.clone(), old.listeners.clone());
    Shared { sites, limiter, limits, clock, store, listeners, ..fresh }
}

impl World {
    fn new(seed: u64) -> (World, Arc<Shared>) {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in FILES {
            std::fs::write(root.path().join(&path[1..]), pattern(bytes)).unwrap();
        }
        let is_mild = seed.is_multiple_of(4);
        let application = Application::new(root.path(), seed ^ 1, is_mild);
        let settings = settings(root.path());
        let listeners = listen::bind(&[ListenAddress::Tcp(([127, 0, 0, 1], 0).into()).into()]).unwrap();
        listen::follow(&listeners, &settings);
        let ListenAddress::Tcp(server) = *listeners[0].address() else { unreachable!("it is a TCP address") };
        let counted = Counted::new().unwrap();
        let (fresh, _other) = testing::shared(1, 1);
        let shared = Arc::new(Shared {
            sites: Arc::new(Sites::open(&settings).unwrap()),
            limiter: Limiter::new(&settings, counted.clone(), SharedMemory::default()),
            limits: Arc::new(settings.limits.clone()),
            listeners: Arc::new(listeners),
            ..fresh
        });
        let deferred = Deferred { dice: Dice::seeded(seed ^ 2), waiting: Vec::new(), gives_all: false };
        let groups = shared.sites.at(0).routes.groups().to_vec();
        let deferred = Rc::new(RefCell::new(deferred));
        let clients = Vec::new();
        (World { clients, application, deferred, server, settings, is_mild, counted, groups, _root: root }, shared)
    }

    /// Carries operations out, up to one that replaces the worker.
    fn serve<'a>(&mut self, worker: &mut impl Life<'a>, operations: &mut Iter<'_, Operation>) -> Option<Next> {
        for operation in operations {
            if let Some(next) = self.operate(worker, *operation) {
                return Some(next);
            }
            self.check(worker);
        }
        None
    }

    fn operate<'a>(&mut self, worker: &mut impl Life<'a>, operation: Operation) -> Option<Next> {
        match operation {
            Operation::Connect(seed) => {
                let client = Client::connect(self.clients.len(), self.server, seed, self.is_mild);
                self.clients.push(client);
            }
            Operation::Send(number) => self.with_client(number, |client, dice| {
                client.send(dice.size(70_000));
            }),
            Operation::Take(number) => self.with_client(number, |client, dice| {
                client.take(dice.size(200_000));
            }),
            Operation::HalfClose(number) => self.with_client(number, |client, _| client.half_close()),
            Operation::Leave(number) => self.with_client(number, |client, _| client.leave()),
            Operation::Reset(number) => self.with_client(number, |client, _| client.reset()),
            Operation::Work => work(worker),
            Operation::Complete => worker.handle_all_completed(),
            Operation::Serve(number) => {
                for _ in 0..1 + number % 3 {
                    self.application.serve_one();
                }
            }
            Operation::Purge(number) => {
                worker.base().shared.store.purge_answers(&|key| key.path.len() as u64 % 2 == number % 2);
            }
            Operation::Change(number) => return Some(self.next(number, None)),
            Operation::Reload(number) => {
                let algorithm = Algorithm::ALL[(number % Algorithm::ALL.len() as u64) as usize];
                worker.base().shared.store.change_policy(Policy { algorithm, ..Policy::default() });
                let settings = match self.is_mild {
                    true => self.settings.clone(),
                    false => bounded(&self.settings, &mut Dice::seeded(number)),
                };
                return Some(self.next(number, Some(settings)));
            }
        }
        None
    }

    fn with_client(&mut self, number: u64, act: impl FnOnce(&mut Client, &mut Dice)) {
        let mut dice = Dice::seeded(number);
        let mut there: Vec<&mut Client> = self.clients.iter_mut().filter(|client| client.is_there()).collect();
        let at = dice.below(there.len());
        if let Some(client) = there.get_mut(at) {
            act(client, &mut dice);
        }
    }

    /// The successor, and how much time has passed by then.
    fn next(&self, number: u64, settings: Option<Settings>) -> Next {
        let mut dice = Dice::seeded(number ^ 3);
        let hands = dice.one_of(&[Hands::InLine, Hands::Elsewhere, Hands::Elsewhere]);
        let jump_ms = dice.one_of(&[0, 0, 0, 700, 6_000, 40_000]);
        Next { settings, jump_ms: if self.is_mild { 0 } else { jump_ms }, hands }
    }

    /// The worker gives everything to a successor.
    fn replace(&mut self, worker: Worker<'_, Executing>, shared: &Arc<Shared>, successor: Arc<Shared>) -> Arc<Shared> {
        self.deferred.borrow_mut().gives_all = true;
        shared.handover.appoint(HandoverTarget::Engine(successor.clone()));
        shared.control.hand_over();
        worker.run().unwrap();
        let mut deferred = self.deferred.borrow_mut();
        deferred.gives_all = false;
        // What is left was for connections that are gone, or is asked for again.
        deferred.waiting.clear();
        successor
    }
}

/// A batch of the worker's life, without a wait.
fn work<'a>(worker: &mut impl Life<'a>) {
    worker.wait(Some(0)).unwrap();
    worker.update_time();
    worker.handle_events();
    worker.resume_queued();
    worker.handle_time();
}

// What is held.
impl World {
    fn check<'a>(&self, worker: &impl Life<'a>) {
        let base = worker.base();
        base.queue.check_invariants(&base.connections);
        self.application.check_posts();
        if base.shared.store.background().is_idle() {
            base.shared.store.check_invariants();
        }
    }

    /// Everybody does what there is to be done, until each client has what it waits for.
    fn settle<'a>(&mut self, worker: &mut impl Life<'a>) {
        let mut quiet = 0;
        while !self.clients.iter().all(Client::is_served) {
            let mut has_moved = false;
            for client in &mut self.clients {
                has_moved |= client.send(usize::MAX);
                has_moved |= client.take(1 << 18);
            }
            has_moved |= self.application.serve_all();
            self.deferred.borrow_mut().gives_all = true;
            has_moved |= !self.deferred.borrow().waiting.is_empty();
            worker.handle_all_completed();
            work(worker);
            quiet = if has_moved { 0 } else { quiet + 1 };
            if quiet > 3 {
                thread::sleep(QUIET_ROUND);
            }
            let waiting = || self.clients.iter().position(|client| !client.is_served());
            assert!(quiet < QUIET_ROUNDS_MAX, "client {:?} is never answered", waiting());
        }
        self.check(worker);
    }

    /// All clients have left: nothing is left of them.
    fn end(mut self, worker: Worker<'_, Executing>, shared: &Arc<Shared>) -> Got {
        let number = self.clients.len();
        let mut got = Got::default();
        self.clients.iter().for_each(|client| got.add(client.got()));
        self.clients.clear();
        // What still waits for somebody to go on has waited long enough.
        let successor = Arc::new(succeed(shared, None, LONG_MS));
        let shared = self.replace(worker, shared, successor);
        let executing = Executing { hands: Hands::InLine, deferred: self.deferred.clone() };
        let mut worker = Worker::new(&shared, 0, executing).unwrap();
        let is_busy = |groups: &[Arc<Group>]| {
            let now = shared.clock.now();
            groups.iter().any(|group| group.status(now).iter().any(|one| one.load > 0))
        };
        let mut rounds = 0;
        let is_left = |worker: &Worker<'_, Executing>| {
            worker.base().connections.count() > 0 || is_busy(&self.groups) || !shared.store.background().is_idle()
        };
        // The first of them takes what has been handed over.
        while rounds < 3 || is_left(&worker) {
            work(&mut worker);
            if !self.application.serve_all() {
                thread::sleep(QUIET_ROUND);
            }
            rounds += 1;
            let connections: Vec<_> = worker.base().connections.all().collect();
            assert!(rounds < QUIET_ROUNDS_MAX, "connections are left open: {connections:?}");
        }
        assert!(worker.base().queue.is_empty(), "somebody waits for a turn");
        self.check(&worker);
        self.groups.iter().for_each(|group| group.check_invariants(0));
        (0..number.min(3)).for_each(|number| self.counted.check_gone(address(number)));
        assert_eq!(shared.store.parked().bytes(), 0, "connections that are gone hold something");
        got
    }
}
