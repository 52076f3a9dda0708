package drivers;

import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/** What the three programs need: the address, the rows that they write, and the count of their checks. */
final class Check {
    static final String HOST = System.getenv("ROWSTAMP_HOST");
    static final String PORT = System.getenv("ROWSTAMP_PORT");
    static final String USER = System.getenv("ROWSTAMP_USER");
    static final String PASSWORD = System.getenv("ROWSTAMP_PASSWORD");
    static final String DATABASE = System.getenv("ROWSTAMP_DATABASE");

    /** The tables and the least id that each may hand out. */
    static final Map<String, Long> TABLES = new TreeMap<>(Map.of("orders", 5000L, "kept", 7000L));

    /** A row's id and the text that the table's view shows for its columns. */
    record Row(long id, String text) {}

    /** Values of the columns and the text that they must give. */
    record Sample(String text, Object... values) {}

    static final List<String> COLUMNS = List.of("note", "qty", "price", "weight", "placed", "paid", "payload");

    private static final String TRICKY = "it's \"q\" \\ ? (), -- /* \u00e9 \u2603 \ud83d\ude00";

    /**
     * NULLs and types change from one row to the next, so that a prepared statement has to bind again. No fractions of a second:
     * Connector/J drops them on MariaDB, whose greeting begins with 5.5.5.
     */
    static final List<Sample> SAMPLES = List.of(
            new Sample("plain|1|12.50|0.25|2024-02-29 13:14:15.000000|1|0001275CFF",
                    "plain", 1, new BigDecimal("12.50"), 0.25, LocalDateTime.of(2024, 2, 29, 13, 14, 15), true,
                    new byte[] {0, 1, 0x27, 0x5c, (byte) 0xff}),
            new Sample("NULL|NULL|NULL|NULL|NULL|NULL|NULL", null, null, null, null, null, null, null),
            new Sample(TRICKY + "|-2147483648|-0.01|-10000000000|1999-12-31 23:59:59.000000|0|",
                    TRICKY, Integer.MIN_VALUE, new BigDecimal("-0.01"), -1e10, LocalDateTime.of(1999, 12, 31, 23, 59, 59), false,
                    new byte[0]),
            new Sample("|0|9999999999.99|0.5|2000-01-01 00:00:00.000000|NULL|4E554C4C",
                    "", 0, new BigDecimal("9999999999.99"), 0.5, LocalDateTime.of(2000, 1, 1, 0, 0), null,
                    new byte[] {'N', 'U', 'L', 'L'}));

    private final String driver;
    private int count;
    private int wrong;

    Check(String driver) {
        this.driver = driver;
    }

    /** The text of a row of which only note and qty were given. */
    static String brief(String note, int qty) {
        return note + "|" + qty + "|NULL|NULL|NULL|NULL|NULL";
    }

    /** The rows of these ids, given with brief(note, 0), brief(note, 1), ... */
    static List<Row> rows(List<Long> ids, String note) {
        Row[] rows = new Row[ids.size()];
        Arrays.setAll(rows, i -> new Row(ids.get(i), brief(note, i)));
        return List.of(rows);
    }

    void same(String what, Object expect, Object got) {
        count++;
        if (Objects.equals(expect, got)) {
            System.out.println("  " + what);
        } else {
            wrong++;
            System.out.println("  WRONG " + what + ": expected " + expect + ", got " + got);
        }
    }

    void done() {
        if (wrong > 0) {
            System.out.println("FAILED " + driver + ": " + wrong + " of " + count + " checks");
            System.exit(1);
        }
        System.out.println("ok " + driver + ": " + count + " checks");
    }
}
