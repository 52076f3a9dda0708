<?php

// PDO with mysqlnd. `main.php emulated`, PDO's default: values are written into the text. `main.php native`: prepared on the
// server. `main.php compressed`: the same, compressed whether the server offers that or not. It has no call for a batch: that is a loop over one statement.

declare(strict_types=1);

const TABLES = ['orders' => 5000, 'kept' => 7000];
const COLUMNS = ['note', 'qty', 'price', 'weight', 'placed', 'paid', 'payload'];
const TRICKY = "it's \"q\" \\ ? (), -- /* é ☃ 😀";

// Values of the columns and the text that the table's view must show for them. NULLs and types change from one row to the
// next, so that a prepared statement has to bind again.
const SAMPLES = [
    [
        ['plain', 1, '12.50', 0.25, '2024-02-29 13:14:15.123456', true, "\x00\x01'\\\xff"],
        'plain|1|12.50|0.25|2024-02-29 13:14:15.123456|1|0001275CFF',
    ],
    [[null, null, null, null, null, null, null], 'NULL|NULL|NULL|NULL|NULL|NULL|NULL'],
    [
        [TRICKY, -2147483648, '-0.01', -1e10, '1999-12-31 23:59:59', false, ''],
        TRICKY . '|-2147483648|-0.01|-10000000000|1999-12-31 23:59:59.000000|0|',
    ],
    [
        ['', 0, '9999999999.99', 0.5, '2000-01-01 00:00:00', null, 'NULL'],
        '|0|9999999999.99|0.5|2000-01-01 00:00:00.000000|NULL|4E554C4C',
    ],
];

final class Program
{
    private int $count = 0;
    private int $wrong = 0;
    private PDO $connection;
    private PDO $witness;

    public function __construct(private string $driver, bool $emulated, private bool $compressed)
    {
        $this->connection = $this->connect();
        $this->witness = $this->connect();
        $this->connection->setAttribute(PDO::ATTR_EMULATE_PREPARES, $emulated);
    }

    public function run(): int
    {
        foreach (TABLES as $table => $firstId) {
            $this->oneRow($table, $firstId);
            $this->several($table);
            $this->repeated($table);
            $this->transactions($table);
        }
        if ($this->wrong > 0) {
            echo "FAILED {$this->driver}: {$this->wrong} of {$this->count} checks\n";
            return 1;
        }
        echo "ok {$this->driver}: {$this->count} checks\n";
        return 0;
    }

    private function connect(): PDO
    {
        $dsn = sprintf('mysql:host=%s;port=%s;dbname=%s', getenv('ROWSTAMP_HOST'), getenv('ROWSTAMP_PORT'), getenv('ROWSTAMP_DATABASE'));
        $options = $this->compressed ? [PDO::MYSQL_ATTR_COMPRESS => true] : [];
        return new PDO($dsn, getenv('ROWSTAMP_USER'), getenv('ROWSTAMP_PASSWORD'), $options);
    }

    private function same(string $what, mixed $expect, mixed $got): void
    {
        $this->count++;
        if ($expect === $got) {
            echo "  $what\n";
        } else {
            $this->wrong++;
            echo "  WRONG $what: expected " . json_encode($expect) . ', got ' . json_encode($got) . "\n";
        }
    }

    private static function short(string $note, int $qty): string
    {
        return "$note|$qty|NULL|NULL|NULL|NULL|NULL";
    }

    /** The rows of these ids, given with note and qty 0, 1, ... */
    private static function expected(array $ids, string $note): array
    {
        return array_map(fn (int $id, int $qty) => [$id, self::short($note, $qty)], $ids, array_keys($ids));
    }

    private function rows(string $table, string $tag): array
    {
        $statement = $this->witness->prepare("SELECT id, txt FROM {$table}_text WHERE tag = ? ORDER BY id");
        $statement->execute([$tag]);
        return $statement->fetchAll(PDO::FETCH_NUM);
    }

    private function lastId(): int
    {
        return (int) $this->connection->lastInsertId();
    }

    private function oneRow(string $table, int $firstId): void
    {
        $tag = "{$this->driver} one";
        $this->connection->exec("INSERT INTO $table (tag, note, qty) VALUES ('$tag', 'it''s one', 0)");
        $id = $this->lastId();
        $function = $this->connection->query('SELECT LAST_INSERT_ID()')->fetchColumn();
        $this->same("$table: one row", self::expected([$id], "it's one"), $this->rows($table, $tag));
        $this->same("$table: LAST_INSERT_ID() is lastInsertId", $id, $function);
        $this->same("$table: id $id is not below $firstId", true, $id >= $firstId);
    }

    private function several(string $table): void
    {
        $tag = "{$this->driver} several";
        $statement = $this->connection->prepare("INSERT INTO $table (tag, note, qty) VALUES (?, 's', 0), (?, 's', 1), (?, 's', 2)");
        $statement->execute([$tag, $tag, $tag]);
        $id = $this->lastId();
        $this->same("$table: affected rows of several", 3, $statement->rowCount());
        $this->same("$table: several rows", self::expected([$id, $id + 1, $id + 2], 's'), $this->rows($table, $tag));
    }

    private function repeated(string $table): void
    {
        $tag = "{$this->driver} repeated";
        $marks = implode(', ', array_fill(0, count(COLUMNS), '?'));
        $statement = $this->connection->prepare("INSERT INTO $table (tag, " . implode(', ', COLUMNS) . ") VALUES (?, $marks)");
        $expect = [];
        foreach (SAMPLES as [$values, $text]) {
            $statement->bindValue(1, $tag);
            foreach ($values as $i => $value) {
                $statement->bindValue($i + 2, $value, match (true) {
                    is_int($value) => PDO::PARAM_INT,
                    is_bool($value) => PDO::PARAM_BOOL,
                    is_null($value) => PDO::PARAM_NULL,
                    // A string by emulation, binary: a payload need not be of the connection's charset.
                    COLUMNS[$i] === 'payload' => PDO::PARAM_LOB,
                    default => PDO::PARAM_STR,
                });
            }
            $statement->execute();
            $expect[] = [$this->lastId(), $text];
        }
        $this->same("$table: repeated executions", $expect, $this->rows($table, $tag));

        $tag = "{$this->driver} batch";
        $statement = $this->connection->prepare("INSERT INTO $table (tag, note, qty) VALUES (:tag, 'b', :qty)");
        $ids = [];
        for ($i = 0; $i < 20; $i++) {
            $statement->execute(['tag' => $tag, 'qty' => $i]);
            $ids[] = $this->lastId();
        }
        $this->same("$table: a batch", self::expected($ids, 'b'), $this->rows($table, $tag));

        $tag = "{$this->driver} null";
        $statement = $this->connection->prepare("INSERT INTO $table (id, tag, note, qty) VALUES (?, ?, 'n', 0)");
        $statement->execute([null, $tag]);
        $this->same("$table: id bound to NULL", self::expected([$this->lastId()], 'n'), $this->rows($table, $tag));
    }

    private function transactions(string $table): void
    {
        $statement = $this->connection->prepare("INSERT INTO $table (tag, note, qty) VALUES (?, 't', ?)");
        $insert = function (string $tag, int $qty) use ($statement): int {
            $statement->execute([$tag, $qty]);
            return $this->lastId();
        };
        $tag = "{$this->driver} transaction";
        $this->connection->beginTransaction();
        $ids = [$insert($tag, 0), $insert($tag, 1)];
        $this->same("$table: nothing is seen before the commit", [], $this->rows($table, $tag));
        $this->connection->commit();
        $this->same("$table: committed", self::expected($ids, 't'), $this->rows($table, $tag));

        $tag = "{$this->driver} rollback";
        $this->connection->beginTransaction();
        $gone = $insert($tag, 0);
        $this->connection->rollBack();
        $this->same("$table: rolled back", [], $this->rows($table, $tag));
        $after = $insert($tag, 0);
        $this->same("$table: after the rollback", self::expected([$after], 't'), $this->rows($table, $tag));
        $this->same("$table: id $gone is not given again", true, $after > $gone);
    }
}

exit((new Program("PDO $argv[1]", $argv[1] === 'emulated', $argv[1] === 'compressed'))->run());
