package drivers;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;

/**
 * MariaDB Connector/J. A batch is pipelined, or goes as one bulk execution where the server has it (useBulkStmts; with
 * generated keys only where the server tells each row's, MariaDB 11.5). rewriteBatchedStatements was 2.x's: 3.x takes the
 * word and does nothing, and so do we with it. After one INSERT of several rows it reports the first key alone.
 */
public final class MariaDbConnectorJ {
    private static final List<String> OPTIONS = List.of(
            "", "useServerPrepStmts=true", "useBulkStmts=true", "useBulkStmts=true&useServerPrepStmts=true", "rewriteBatchedStatements=true");

    public static void main(String[] args) throws Exception {
        Check check = new Check("MariaDB Connector/J");
        String key = keyOption();
        try (Connection witness = Jdbc.connect("mariadb", "?" + key)) {
            for (String options : OPTIONS) {
                try (Connection connection = Jdbc.connect("mariadb", "?" + key + options)) {
                    String name = "M " + (options.isEmpty() ? "defaults" : options.replace("=true", ""));
                    Jdbc jdbc = new Jdbc(check, name, connection, witness, Jdbc.Keys.FIRST);
                    jdbc.run();
                    if (connection.getMetaData().getDatabaseProductName().equals("MariaDB")) {
                        check.same("a silent batch (" + name + ") is one bulk execution", 1L, jdbc.executionsOfBatch());
                    }
                }
            }
        }
        check.done();
    }

    /**
     * Nothing where its defaults connect. Without TLS, which is off by default, it answers caching_sha2_password's full
     * exchange only if it may ask for the server's key; what is between it and the server cannot change that.
     */
    static String keyOption() throws SQLException {
        try (Connection first = Jdbc.connect("mariadb", "")) {
            return "";
        } catch (SQLException refused) {
            if (!String.valueOf(refused.getMessage()).contains("RSA public key is not available")) {
                throw refused;
            }
            System.out.println("note: its defaults refuse this server (no RSA key): connecting with allowPublicKeyRetrieval");
            return "allowPublicKeyRetrieval=true&";
        }
    }
}
