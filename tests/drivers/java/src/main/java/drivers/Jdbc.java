package drivers;

import static drivers.Check.brief;
import static java.sql.Statement.RETURN_GENERATED_KEYS;

import drivers.Check.Row;
import drivers.Check.Sample;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;

/** The checks for a JDBC driver, on one connection: its options decide what travels beneath the same calls. */
final class Jdbc {
    /** Enough for a batch to be more than one packet's worth of trouble, and for ids to be told apart by arithmetic. */
    private static final int BATCH = 300;

    /** The keys that a driver reports after one INSERT of several rows: the protocol itself carries only the first. */
    enum Keys { FIRST, ALL }

    private final Check check;
    private final Connection connection;
    private final Connection witness;
    private final Keys severalKeys;
    private final String name;
    /** What a silent batch of {@link #BATCH} rows took. */
    private long executions;

    /** name: of the options, for tags and lines. */
    Jdbc(Check check, String name, Connection connection, Connection witness, Keys severalKeys) {
        this.check = check;
        this.name = name;
        this.connection = connection;
        this.witness = witness;
        this.severalKeys = severalKeys;
    }

    static Connection connect(String scheme, String options) throws SQLException {
        String url = "jdbc:" + scheme + "://" + Check.HOST + ":" + Check.PORT + "/" + Check.DATABASE + options;
        return DriverManager.getConnection(url, Check.USER, Check.PASSWORD);
    }

    long executionsOfBatch() {
        return executions;
    }

    void run() throws SQLException {
        for (var table : Check.TABLES.entrySet()) {
            oneRow(table.getKey(), table.getValue());
            several(table.getKey());
            repeated(table.getKey());
            batch(table.getKey(), 5);
            batch(table.getKey(), BATCH);
            idsOfBatch(table.getKey());
            textBatch(table.getKey());
            transactions(table.getKey());
        }
    }

    private String line(String table, String what) {
        return table + " (" + name + "): " + what;
    }

    private List<Row> rows(String table, String tag) throws SQLException {
        String query = "SELECT id, txt FROM " + table + "_text WHERE tag = ? ORDER BY id";
        try (PreparedStatement statement = witness.prepareStatement(query)) {
            statement.setString(1, tag);
            List<Row> rows = new ArrayList<>();
            ResultSet result = statement.executeQuery();
            while (result.next()) {
                rows.add(new Row(result.getLong(1), result.getString(2)));
            }
            return rows;
        }
    }

    private static List<Long> keys(Statement statement) throws SQLException {
        List<Long> keys = new ArrayList<>();
        ResultSet result = statement.getGeneratedKeys();
        while (result.next()) {
            keys.add(result.getLong(1));
        }
        return keys;
    }

    private void oneRow(String table, long firstId) throws SQLException {
        String tag = name + " one";
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate(
                    "INSERT INTO " + table + " (tag, note, qty) VALUES ('" + tag + "', 'it''s one', 1)", RETURN_GENERATED_KEYS);
            long id = keys(statement).get(0);
            check.same(line(table, "one row"), List.of(new Row(id, brief("it's one", 1))), rows(table, tag));
            check.same(line(table, "LAST_INSERT_ID() is the generated key"), id, lastInsertId());
            check.same(line(table, "id " + id + " is not below " + firstId), true, id >= firstId);
        }
    }

    private void several(String table) throws SQLException {
        String tag = name + " several";
        String insert = "INSERT INTO " + table + " (tag, note, qty) VALUES (?, 's', 0), (?, 's', 1), (?, 's', 2)";
        try (PreparedStatement statement = connection.prepareStatement(insert, RETURN_GENERATED_KEYS)) {
            for (int i = 1; i <= 3; i++) {
                statement.setString(i, tag);
            }
            check.same(line(table, "affected rows of several"), 3, statement.executeUpdate());
            List<Long> keys = keys(statement);
            long first = keys.get(0);
            List<Long> ids = List.of(first, first + 1, first + 2);
            check.same(line(table, "generated keys of several"), severalKeys == Keys.ALL ? ids : List.of(first), keys);
            check.same(line(table, "several rows"), Check.rows(ids, "s"), rows(table, tag));
        }
    }

    private void repeated(String table) throws SQLException {
        String tag = name + " repeated";
        String insert = "INSERT INTO " + table + " (tag, " + String.join(", ", Check.COLUMNS) + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        List<Row> expect = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement(insert, RETURN_GENERATED_KEYS)) {
            for (Sample sample : Check.SAMPLES) {
                statement.setString(1, tag);
                for (int i = 0; i < sample.values().length; i++) {
                    statement.setObject(i + 2, sample.values()[i]);
                }
                statement.executeUpdate();
                expect.add(new Row(keys(statement).get(0), sample.text()));
            }
        }
        check.same(line(table, "repeated executions"), expect, rows(table, tag));

        insert = "INSERT INTO " + table + " (id, tag, note, qty) VALUES (?, ?, 'n', 1)";
        try (PreparedStatement statement = connection.prepareStatement(insert, RETURN_GENERATED_KEYS)) {
            statement.setObject(1, null);
            statement.setString(2, name + " null");
            statement.executeUpdate();
            Row row = new Row(keys(statement).get(0), brief("n", 1));
            check.same(line(table, "id bound to NULL"), List.of(row), rows(table, name + " null"));
        }
    }

    private void batch(String table, int size) throws SQLException {
        String tag = name + " batch " + size;
        String insert = "INSERT INTO " + table + " (tag, note, qty) VALUES (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert, RETURN_GENERATED_KEYS)) {
            for (int i = 0; i < size; i++) {
                statement.setString(1, tag);
                statement.setString(2, "it's b");
                statement.setInt(3, i);
                statement.addBatch();
            }
            check.same(line(table, "results of a batch of " + size), size, statement.executeBatch().length);
            check.same(line(table, "generated keys of it"), Check.rows(keys(statement), "it's b"), rows(table, tag));
        }

        // Nobody asks for the keys: the driver is free to choose a faster way.
        tag = name + " silent batch " + size;
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int i = 0; i < size; i++) {
                statement.setString(1, tag);
                statement.setString(2, i % 2 == 0 ? null : "b");
                statement.setInt(3, i);
                statement.addBatch();
            }
            statement.executeBatch();
        }
        List<String> expect = new ArrayList<>();
        for (int i = 0; i < size; i++) {
            expect.add(brief(i % 2 == 0 ? "NULL" : "b", i));
        }
        check.same(line(table, "a silent batch of " + size), expect, rows(table, tag).stream().map(Row::text).toList());
    }

    /** NULL, 0 and ids of the program's own in one batch whose keys nobody asks for: a driver may send it as one bulk execution. */
    private void idsOfBatch(String table) throws SQLException {
        String tag = name + " ids";
        String insert = "INSERT INTO " + table + " (tag, note, qty) VALUES (?, 'i', ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int i = 0; i < BATCH; i++) {
                statement.setString(1, tag);
                statement.setInt(2, i);
                statement.addBatch();
            }
            executions = statementsExecuted();
            statement.executeBatch();
            executions = statementsExecuted() - executions;
        }
        List<Row> rows = rows(table, tag);
        long first = rows.get(0).id();
        check.same(line(table, "ids of a silent batch, in its order"), Check.rows(LongStream.range(first, first + BATCH).boxed().toList(), "i"), rows);
        long last = lastInsertId();
        check.same(line(table, "LAST_INSERT_ID() behind it is one of them"), true, last >= first && last < first + BATCH);

        tag = name + " own ids";
        insert = "INSERT INTO " + table + " (id, tag, note, qty) VALUES (?, ?, 'o', ?)";
        List<Long> own = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int i = 0; i < 30; i++) {
                Long id = i % 3 == 0 ? Long.valueOf(first + 10_000 + i) : null;
                statement.setObject(1, i % 3 == 1 ? Long.valueOf(0) : id, Types.BIGINT);
                statement.setString(2, tag);
                statement.setInt(3, i);
                statement.addBatch();
                own.add(id);
            }
            statement.executeBatch();
        }
        rows = rows(table, tag);
        check.same(line(table, "rows with and without ids of their own"), 30, rows.size());
        for (Row row : rows) {
            int i = Integer.parseInt(row.text().split("\\|")[1]);
            boolean isRight = own.get(i) == null ? !own.contains(row.id()) && row.id() > first : own.get(i) == row.id();
            check.same(line(table, "id " + row.id() + " of row " + i), true, isRight);
        }
    }

    /** How many statements this session's server has executed that were prepared. */
    private long statementsExecuted() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            ResultSet result = statement.executeQuery("SHOW SESSION STATUS LIKE 'Com_stmt_execute'");
            result.next();
            return result.getLong(2);
        }
    }

    private long lastInsertId() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            ResultSet result = statement.executeQuery("SELECT LAST_INSERT_ID()");
            result.next();
            return result.getLong(1);
        }
    }

    /** Several INSERTs given as text: with rewriteBatchedStatements Connector/J sends them in one packet. */
    private void textBatch(String table) throws SQLException {
        String tag = name + " text batch";
        try (Statement statement = connection.createStatement()) {
            for (int i = 0; i < 6; i++) {
                statement.addBatch("INSERT INTO " + table + " (tag, note, qty) VALUES ('" + tag + "', 'it''s; x', " + i + ")");
            }
            check.same(line(table, "results of a text batch"), 6, statement.executeBatch().length);
            check.same(line(table, "generated keys of it"), Check.rows(keys(statement), "it's; x"), rows(table, tag));
        }
    }

    private void transactions(String table) throws SQLException {
        connection.setAutoCommit(false);
        String insert = "INSERT INTO " + table + " (tag, note, qty) VALUES (?, 't', ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert, RETURN_GENERATED_KEYS)) {
            String tag = name + " transaction";
            List<Long> ids = List.of(insert(statement, tag, 0), insert(statement, tag, 1));
            check.same(line(table, "nothing is seen before the commit"), List.of(), rows(table, tag));
            connection.commit();
            check.same(line(table, "committed"), Check.rows(ids, "t"), rows(table, tag));

            tag = name + " rollback";
            long gone = insert(statement, tag, 1);
            connection.rollback();
            check.same(line(table, "rolled back"), List.of(), rows(table, tag));
            long after = insert(statement, tag, 0);
            connection.commit();
            check.same(line(table, "after the rollback"), Check.rows(List.of(after), "t"), rows(table, tag));
            check.same(line(table, "id " + gone + " is not given again"), true, after > gone);
        }
        connection.setAutoCommit(true);
    }

    private static long insert(PreparedStatement statement, String tag, int qty) throws SQLException {
        statement.setString(1, tag);
        statement.setInt(2, qty);
        statement.executeUpdate();
        return keys(statement).get(0);
    }
}
