//! Who runs SELECTs: on sessions that are kept until they end, and on a new one each time.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::raw::{Client, Options};

const KEEPERS: usize = 6;
const COMERS: usize = 2;
/// A SELECT that has no answer by then is lost.
const DEADLINE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// The results of the SELECTs since the last [`Readers::take`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) answered: u64,
    /// Sessions that ended under a SELECT, which was sent again.
    pub(crate) broken: u64,
    /// Connections that were not to be had, or logins refused; tried again.
    pub(crate) refused: u64,
    /// SELECTs without an answer.
    pub(crate) lost: u64,
    /// The longest time that one took, with all that was tried again.
    pub(crate) longest: Duration,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { answered, broken, refused, lost, longest } = self;
        write!(
            f,
            "{answered} SELECTs answered, {broken} sessions ended, {refused} connections refused, {lost} SELECTs lost, \
             {longest:?} the longest"
        )
    }
}

pub(crate) struct Readers {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(address: &str) -> Readers {
        let (seen, stop) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let threads = (0..KEEPERS + COMERS).map(|nth| {
            let (seen, stop, address) = (seen.clone(), stop.clone(), address.to_owned());
            thread::spawn(move || {
                let mut client = None;
                while !stop.load(Ordering::Relaxed) {
                    select(&address, &mut client, &seen);
                    if nth >= KEEPERS {
                        client = None;
                    }
                    thread::sleep(PAUSE);
                }
            })
        });
        let threads = threads.collect();
        Readers { seen, stop, threads }
    }

    pub(crate) fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().expect("no reader panics"))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn select(address: &str, client: &mut Option<Client>, seen: &Mutex<Seen>) {
    let begun = Instant::now();
    let mut tries = Seen::default();
    loop {
        if client.is_none() {
            *client = Client::connect(address, &Options::default()).ok();
            tries.refused += u64::from(client.is_none());
        }
        if let Some(open) = client {
            match open.query("SELECT COUNT(*) FROM drill.native") {
                Ok(outcomes) if outcomes[0].cell(0, 0).is_some() => {
                    tries.answered = 1;
                    break;
                }
                _ => {
                    tries.broken += 1;
                    *client = None;
                }
            }
        }
        if begun.elapsed() > DEADLINE {
            tries.lost = 1;
            break;
        }
        thread::sleep(PAUSE);
    }
    let mut seen = seen.lock().expect("no reader panics");
    seen.answered += tries.answered;
    seen.broken += tries.broken;
    seen.refused += tries.refused;
    seen.lost += tries.lost;
    seen.longest = seen.longest.max(begun.elapsed());
}
