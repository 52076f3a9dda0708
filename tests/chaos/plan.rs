//! Which faults there are, when, and for how long: all drawn from the seed before anything starts.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::support::told;

pub(crate) const PROXIES: usize = 3;
pub(crate) const MEMBERS: usize = 3;

/// How long a proxy takes to serve again, about.
const RECOVERY: Duration = Duration::from_millis(700);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Kill,
    Freeze,
    LeaderKill,
    ClockJump,
    Partition,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] =
        [Kind::Kill, Kind::Freeze, Kind::LeaderKill, Kind::ClockJump, Kind::Partition];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::Freeze => "freeze",
            Kind::LeaderKill => "leader kill",
            Kind::ClockJump => "clock jump",
            Kind::Partition => "partition",
        }
    }
}

/// A fault of one proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL, and a start so much later.
    Kill {
        away: Duration,
    },
    Freeze {
        lasts: Duration,
    },
    /// The clock is wrong by so many seconds, then right again; with `killed`, the proxy is killed and starts meanwhile.
    ClockJump {
        by_seconds: i64,
        lasts: Duration,
        killed: bool,
    },
    Partition {
        members: Vec<usize>,
        loses: Loses,
        lasts: Duration,
    },
}

/// Which packets are lost. Where only answers are, etcd does what the proxy cannot know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loses {
    Requests,
    Answers,
    Both,
}

/// The leader of etcd is killed, and comes back so much later: two of three members are there at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaderKill {
    pub(crate) away: Duration,
}

/// Faults, each after a pause.
pub(crate) type Lane<T> = Vec<(Duration, T)>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) ids: u64,
    pub(crate) seed: u64,
    counts: [u32; Kind::ALL.len()],
    /// Faults of one proxy come one after the other, of different proxies at any time.
    pub(crate) proxies: [Lane<Fault>; PROXIES],
    pub(crate) leader: Lane<LeaderKill>,
}

impl Plan {
    /// `None`: tests/chaos.sh did not call.
    pub(crate) fn from_environment() -> Option<Plan> {
        let number = |name: &str| told::number::<u64>(&format!("ROWSTAMP_CHAOS_{name}"));
        let ids = number("IDS")?;
        let counts = ["KILLS", "FREEZES", "LEADER_KILLS", "CLOCK_JUMPS", "PARTITIONS"]
            .map(|name| u32::try_from(number(name).expect("the script sets it")).expect("not so many"));
        Some(Plan::draw(ids, counts, number("SEED").expect("the script sets it")))
    }

    /// `counts` as [`Kind::ALL`] has them.
    fn draw(ids: u64, counts: [u32; Kind::ALL.len()], seed: u64) -> Plan {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut faults = Vec::new();
        let mut leader = Vec::new();
        for (kind, count) in Kind::ALL.into_iter().zip(counts) {
            for _ in 0..count {
                match kind {
                    Kind::Kill => faults.push(Fault::Kill { away: milliseconds(random, 0..300) }),
                    Kind::Freeze => {
                        faults.push(Fault::Freeze { lasts: milliseconds(random, 1_000..10_000) });
                    }
                    Kind::LeaderKill => {
                        let kill = LeaderKill { away: milliseconds(random, 500..3_000) };
                        leader.push((milliseconds(random, 0..1_000), kill));
                    }
                    Kind::ClockJump => faults.push(clock_jump(random)),
                    Kind::Partition => faults.push(partition(random)),
                }
            }
        }
        faults.shuffle(random);
        let mut proxies: [Lane<Fault>; PROXIES] = Default::default();
        for fault in faults {
            let lane = proxies.iter_mut().min_by_key(|lane| length(lane)).expect("there are proxies");
            lane.push((milliseconds(random, 0..700), fault));
        }
        Plan { ids, seed, counts, proxies, leader }
    }

    /// After so much time, if the ids are to be spread over the faults.
    pub(crate) fn ids_due(&self, elapsed: Duration) -> u64 {
        let all = self.proxies.iter().map(length).max().unwrap_or_default().max(Duration::from_secs(1));
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.ids.saturating_mul(milliseconds(elapsed)) / milliseconds(all)
    }

    pub(crate) fn faults(&self) -> u32 {
        self.counts.iter().sum()
    }

    pub(crate) fn count(&self, kind: Kind) -> u32 {
        let at = Kind::ALL.iter().position(|other| *other == kind);
        at.map_or(0, |at| self.counts[at])
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kills, freezes, leader_kills, clock_jumps, partitions] = self.counts;
        write!(
            f,
            "seed {} ({} ids, {kills} kills, {freezes} freezes, {leader_kills} leader kills, {clock_jumps} clock jumps, \
             {partitions} partitions)",
            self.seed, self.ids
        )
    }
}

fn milliseconds(random: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(random.gen_range(range))
}

/// From a second to ten years, either way.
fn clock_jump(random: &mut StdRng) -> Fault {
    const DAY: i64 = 86_400;
    let most = [1, 10, 3_600, DAY, 3_652 * DAY].choose(random).copied().unwrap_or(1);
    let by_seconds = random.gen_range((most + 1) / 2..=most) * if random.r#gen() { 1 } else { -1 };
    Fault::ClockJump { by_seconds, lasts: milliseconds(random, 500..4_000), killed: random.gen_ratio(1, 4) }
}

/// From one member or from all.
fn partition(random: &mut StdRng) -> Fault {
    let members = if random.r#gen() { (0..MEMBERS).collect() } else { vec![random.gen_range(0..MEMBERS)] };
    let loses = [Loses::Requests, Loses::Answers, Loses::Both].choose(random).copied().unwrap_or(Loses::Both);
    Fault::Partition { members, loses, lasts: milliseconds(random, 500..6_000) }
}

/// How long a lane takes, about.
fn length(lane: &Lane<Fault>) -> Duration {
    let one = |(pause, fault): &(Duration, Fault)| {
        let lasts = match fault {
            Fault::Kill { away } => *away,
            Fault::Freeze { lasts } | Fault::ClockJump { lasts, .. } | Fault::Partition { lasts, .. } => {
                *lasts
            }
        };
        *pause + lasts + RECOVERY
    };
    lane.iter().map(one).sum()
}

#[test]
fn a_seed_draws_one_plan_with_all_its_faults_shared_among_the_proxies() {
    let draw = |seed| Plan::draw(1_000, [50, 10, 7, 11, 12], seed);
    let plan = draw(3);
    assert_eq!(plan, draw(3));
    assert_ne!(plan, draw(4));
    assert_eq!((plan.faults(), plan.leader.len()), (90, 7));
    let of = |is: fn(&Fault) -> bool| plan.proxies.iter().flatten().filter(|(_, fault)| is(fault)).count();
    assert_eq!(of(|fault| matches!(fault, Fault::Kill { .. })), 50);
    assert_eq!(of(|fault| matches!(fault, Fault::Freeze { .. })), 10);
    assert_eq!(of(|fault| matches!(fault, Fault::ClockJump { .. })), 11);
    assert_eq!(of(|fault| matches!(fault, Fault::Partition { .. })), 12);
    let lengths = plan.proxies.each_ref().map(length);
    let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
    assert!(*most < *least + Duration::from_secs(11), "{lengths:?}");
}
