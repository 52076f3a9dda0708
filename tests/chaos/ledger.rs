//! The rows that clients were told of, and how often they were told of none.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// One acknowledged statement: rows of adjoining tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Told {
    /// Which only these rows have, in any table.
    pub(crate) first_token: u64,
    pub(crate) rows: u64,
    pub(crate) first_id: u64,
    pub(crate) proxy: usize,
}

#[derive(Default)]
pub(crate) struct Ledger {
    /// The acknowledged statements of each table.
    told: [Mutex<Vec<Told>>; crate::chaos::tables::TABLES.len()],
    rows: AtomicU64,
    /// Rows when half of the faults were done; 0: not yet.
    rows_at_half: AtomicU64,
    /// Statements whose answer never came.
    cut_off: AtomicU64,
    /// Statements that were answered by 1467.
    refused: AtomicU64,
}

impl Ledger {
    pub(crate) fn note(&self, table: usize, told: Told) {
        self.told[table].lock().unwrap().push(told);
        self.rows.fetch_add(told.rows, Ordering::Relaxed);
    }

    pub(crate) fn note_cut_off(&self) {
        self.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn cut_off(&self) -> u64 {
        self.cut_off.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub(crate) fn note_half(&self) {
        let _ = self.rows_at_half.compare_exchange(0, self.rows(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Rows before and after half of the faults were done.
    pub(crate) fn halves(&self) -> (u64, u64) {
        let before = self.rows_at_half.load(Ordering::Relaxed);
        (before, self.rows() - before)
    }

    /// All of one table, by their tokens.
    pub(crate) fn sorted(&self, table: usize) -> Vec<Told> {
        let mut told = self.told[table].lock().unwrap().clone();
        told.sort_unstable();
        told
    }
}
