//! Simulations: runs that are functions of their seeds. `ROWSTAMP_SEEDS=100000` makes many, `ROWSTAMP_SEED=n` the one of
//! that seed.

use std::collections::BTreeMap;

/// All ids that were issued, each with its issuer.
pub(super) type Log = BTreeMap<u64, String>;

/// Each seed runs twice, on a runtime of its own whose clock is paused. A run that differs from its first is no function of
/// its seed, and one of fewer ids than `ids_min` on average was idle.
pub(super) fn each_seed<F: Future<Output = Log>>(ids_min: usize, simulate: impl Fn(u64) -> F) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("ROWSTAMP_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ROWSTAMP_SEEDS").unwrap_or(150),
    };
    let run = |seed| {
        fastrand::seed(seed);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(simulate(seed))
    };
    let count = seeds.clone().count();
    let mut issued = 0;
    for seed in seeds {
        let log = run(seed);
        assert_eq!(log, run(seed), "seed {seed}: two runs");
        issued += log.len();
    }
    // A single seed may have drawn many faults.
    assert!(
        count == 1 || issued > count * ids_min,
        "{issued} ids of {count} seeds: the simulation must not be idle"
    );
}
