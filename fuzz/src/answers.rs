//! A server's answers, as the manual writes them.

use rowstamp::mysql::capabilities::Capabilities as C;
use rowstamp::mysql::packet::put_packets;

pub const AUTOCOMMIT: u8 = 0x02;
pub const MORE_RESULTS: u8 = 0x08;
const CURSOR_EXISTS: u8 = 0x40;
/// The upper half of SERVER_SESSION_STATE_CHANGED.
const STATE_CHANGED: u8 = 0x40;

/// What gives answers their form.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    pub deprecate_eof: bool,
    /// A flag behind the column count; in MySQL behind COM_STMT_PREPARE's OK too.
    pub metadata_flag: bool,
    pub metadata_flag_in_prepare: bool,
}

impl Form {
    pub fn of(capabilities: C) -> Form {
        let has = |bit| capabilities.contains(bit);
        let mysqls = has(C::OPTIONAL_RESULTSET_METADATA);
        Form {
            deprecate_eof: has(C::DEPRECATE_EOF),
            metadata_flag: mysqls || has(C::MARIADB_CACHE_METADATA),
            metadata_flag_in_prepare: mysqls,
        }
    }
}

/// One answer, packet by packet.
pub struct Answer {
    form: Form,
    packet_nr: u8,
    pub bytes: Vec<u8>,
}

impl Answer {
    /// Its first packet has this number.
    pub fn new(form: Form, packet_nr: u8) -> Answer {
        Answer { form, packet_nr, bytes: Vec::new() }
    }

    pub fn packet(&mut self, payload: &[u8]) -> &mut Self {
        self.packet_nr = put_packets(&mut self.bytes, self.packet_nr, payload);
        self
    }

    /// The next packet's number.
    pub fn skip_nr(&mut self, packets: u8) -> &mut Self {
        self.packet_nr = self.packet_nr.wrapping_add(packets);
        self
    }

    pub fn ok(&mut self, affected_rows: u8, status: u8) -> &mut Self {
        self.packet(&[0, affected_rows, 0, status, 0, 0, 0])
    }

    /// With the default database in it, if the client is told of it.
    pub fn ok_with_state(&mut self, affected_rows: u8, is_shown: bool) -> &mut Self {
        if !is_shown {
            return self.ok(affected_rows, AUTOCOMMIT);
        }
        let state = b"\x00\x07\x01\x05\x04test";
        let head = [0, affected_rows, 0, AUTOCOMMIT, STATE_CHANGED, 0, 0];
        self.packet(&[&head[..], state].concat())
    }

    pub fn err(&mut self, text: &str) -> &mut Self {
        self.packet(&[b"\xff\x28\x04#42000", text.as_bytes()].concat())
    }

    pub fn eof(&mut self, status: u8) -> &mut Self {
        let ok = [0xFE, 0, 0, status, 0, 0, 0];
        let deprecates = self.form.deprecate_eof;
        self.packet(if deprecates { &ok } else { &ok[..5] })
    }

    fn definition(&mut self) -> &mut Self {
        self.packet(b"\x03def\0\0\0\x01c\0\x0c\x2d\0\x10\0\0\0\xfd\0\0\0\0\0")
    }

    /// So many definitions, and their EOF where there is one.
    pub fn definitions(&mut self, n: u8) -> &mut Self {
        for _ in 0..n {
            self.definition();
        }
        if n > 0 && !self.form.deprecate_eof {
            self.eof(AUTOCOMMIT);
        }
        self
    }

    /// The beginning of a result; `with_definitions` counts where both sides may leave them out.
    pub fn columns(&mut self, n: u8, with_definitions: bool) -> &mut Self {
        if !self.form.metadata_flag {
            return self.packet(&[n]).definitions(n);
        }
        self.packet(&[n, u8::from(with_definitions)]);
        if with_definitions {
            return self.definitions(n);
        }
        if !self.form.deprecate_eof {
            self.eof(AUTOCOMMIT);
        }
        self
    }

    pub fn rows(&mut self, rows: &[&[u8]], status: u8) -> &mut Self {
        for row in rows {
            self.packet(row);
        }
        self.eof(status)
    }

    /// A result whose rows are fetched by COM_STMT_FETCH.
    pub fn cursor(&mut self) -> &mut Self {
        self.packet(if self.form.metadata_flag { &[1, 1] } else { &[1] });
        self.definition();
        self.eof(AUTOCOMMIT | CURSOR_EXISTS)
    }

    pub fn prepare_ok(&mut self, statement_id: u32, columns: u8, params: u8) -> &mut Self {
        let mut ok = vec![0];
        ok.extend_from_slice(&statement_id.to_le_bytes());
        ok.extend_from_slice(&[columns, 0, params, 0, 0, 0, 0]);
        if self.form.metadata_flag_in_prepare {
            ok.push(1);
        }
        self.packet(&ok).definitions(params).definitions(columns)
    }
}
