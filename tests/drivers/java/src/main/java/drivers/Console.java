package drivers;

import java.math.BigInteger;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;

/** MySQL Connector/J at Rowstamp's console, in each of its ways to prepare: tests/console runs it. */
public final class Console {
    private static final List<String> OPTIONS = List.of(
            "sslMode=DISABLED", "sslMode=REQUIRED", "sslMode=DISABLED&useServerPrepStmts=true",
            "sslMode=DISABLED&useServerPrepStmts=true&useCursorFetch=true&defaultFetchSize=10",
            "sslMode=DISABLED&connectionTimeZone=SERVER&forceConnectionTimeZoneToSession=true", "sslMode=DISABLED&useInformationSchema=true");

    private static int checks;

    public static void main(String[] args) throws Exception {
        for (String options : OPTIONS) {
            try (Connection connection = connect(options, System.getenv("ROWSTAMP_PASSWORD"))) {
                reads(connection);
            }
        }
        try (Connection connection = connect("sslMode=DISABLED", System.getenv("ROWSTAMP_PASSWORD"))) {
            acts(connection);
        }
        try {
            connect("sslMode=DISABLED", "wrong").close();
            throw new AssertionError("a wrong password logs in");
        } catch (SQLException error) {
            check(error.getErrorCode(), 1045);
        }
        System.out.println("ok Connector/J at the console: " + checks + " checks");
    }

    private static Connection connect(String options, String password) throws SQLException {
        String url = "jdbc:mysql://" + System.getenv("ROWSTAMP_HOST") + ":" + System.getenv("ROWSTAMP_PORT") + "/shop?" + options;
        return DriverManager.getConnection(url, System.getenv("ROWSTAMP_USER"), password);
    }

    private static void reads(Connection connection) throws SQLException {
        check(connection.isValid(5), true);
        check(connection.getCatalog(), "shop");
        connection.setAutoCommit(false);
        connection.commit();
        connection.setAutoCommit(true);
        try (PreparedStatement show = connection.prepareStatement("SHOW GENERATORS LIKE 'shop.o%'")) {
            for (int time = 0; time < 2; time++) {
                try (ResultSet rows = show.executeQuery()) {
                    check(rows.next(), true);
                    check(rows.getString("generator"), "shop.orders");
                    check(rows.getObject("issued_ids"), new BigInteger("18446744073709551615"));
                    check(rows.getDouble("ids_per_second"), 2.5);
                    check(rows.getObject("node"), null);
                    check(rows.next(), false);
                }
            }
        }
        // What GUIs draw their trees by.
        try (ResultSet rows = connection.getMetaData().getCatalogs()) {
            check(rows.getMetaData().getColumnName(1), "TABLE_CAT");
        }
        try (ResultSet rows = connection.getMetaData().getTables("shop", null, "%", new String[] {"TABLE"})) {
            check(rows.next(), false);
        }
    }

    private static void acts(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            // executeQuery is for what the driver knows to be a query; these it does not know.
            check(statement.execute("RELOAD RULES DRY RUN"), true);
            try (ResultSet rows = statement.getResultSet()) {
                check(rows.next(), true);
                check(rows.getString("what"), "result");
            }
            check(statement.execute("RAISE GENERATOR shop.orders TO 20000"), true);
            try (ResultSet rows = statement.getResultSet()) {
                check(rows.next(), true);
                check(rows.getLong("bound_now"), 20000L);
            }
            try {
                statement.execute("SHOW RULSE");
                throw new AssertionError("it does not fail");
            } catch (SQLException error) {
                check(error.getErrorCode(), 1064);
                check(error.getMessage().contains("did you mean SHOW RULES?"), true);
            }
        }
    }

    private static void check(Object found, Object expect) {
        checks++;
        if (!java.util.Objects.equals(found, expect)) {
            throw new AssertionError(found + " in place of " + expect);
        }
    }
}
