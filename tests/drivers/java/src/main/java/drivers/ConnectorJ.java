package drivers;

import java.sql.Connection;
import java.util.List;

/**
 * MySQL Connector/J. The keys of several rows it works out from the first and auto_increment_increment. With
 * rewriteBatchedStatements a batch becomes one INSERT of many rows, or several statements in a packet.
 */
public final class ConnectorJ {
    private static final List<String> OPTIONS = List.of(
            "", "useServerPrepStmts=true", "rewriteBatchedStatements=true", "rewriteBatchedStatements=true&useServerPrepStmts=true");

    public static void main(String[] args) throws Exception {
        Check check = new Check("MySQL Connector/J");
        try (Connection witness = Jdbc.connect("mysql", "")) {
            for (String options : OPTIONS) {
                try (Connection connection = Jdbc.connect("mysql", "?" + options)) {
                    String name = "J " + (options.isEmpty() ? "defaults" : options.replace("=true", ""));
                    new Jdbc(check, name, connection, witness, Jdbc.Keys.ALL).run();
                }
            }
        }
        check.done();
    }
}
