# frozen_string_literal: true

# mysql2 on the machine's libmariadb: text (query) and the binary protocol (prepare).

require 'bigdecimal'
require 'mysql2'

TABLES = { 'orders' => 5000, 'kept' => 7000 }.freeze
COLUMNS = %w[note qty price weight placed paid payload].freeze
TRICKY = "it's \"q\" \\ ? (), -- /* é ☃ 😀"

# Values of the columns and the text that the table's view must show for them. NULLs and types change from one row to the
# next, so that a prepared statement has to bind again.
SAMPLES = [
  [['plain', 1, BigDecimal('12.50'), 0.25, Time.local(2024, 2, 29, 13, 14, 15, 123_456), true, "\x00\x01'\\\xFF".b],
   'plain|1|12.50|0.25|2024-02-29 13:14:15.123456|1|0001275CFF'],
  [[nil] * 7, 'NULL|NULL|NULL|NULL|NULL|NULL|NULL'],
  [[TRICKY, -2_147_483_648, BigDecimal('-0.01'), -1e10, Time.local(1999, 12, 31, 23, 59, 59), false, ''.b],
   "#{TRICKY}|-2147483648|-0.01|-10000000000|1999-12-31 23:59:59.000000|0|"],
  [['', 0, BigDecimal('9999999999.99'), 0.5, Time.local(2000, 1, 1), nil, 'NULL'.b],
   '|0|9999999999.99|0.5|2000-01-01 00:00:00.000000|NULL|4E554C4C']
].freeze

# Bookworm's 0.5.3 says utf8 by default, which the servers take for three bytes; Rails always names utf8mb4.
def connect
  Mysql2::Client.new(
    host: ENV.fetch('ROWSTAMP_HOST'), port: ENV.fetch('ROWSTAMP_PORT').to_i, username: ENV.fetch('ROWSTAMP_USER'),
    password: ENV.fetch('ROWSTAMP_PASSWORD'), database: ENV.fetch('ROWSTAMP_DATABASE'), encoding: 'utf8mb4'
  )
end

# Both tables, one connection that writes and one that looks.
class Program
  def initialize
    @client = connect
    @witness = connect
    @count = 0
    @wrong = 0
  end

  def run
    TABLES.each do |table, first_id|
      one_row(table, first_id)
      several(table)
      repeated(table)
      batch(table)
      transactions(table)
    end
    if @wrong.positive?
      puts "FAILED ruby mysql2: #{@wrong} of #{@count} checks"
      exit 1
    end
    puts "ok ruby mysql2: #{@count} checks"
  end

  private

  def same(what, expect, got)
    @count += 1
    if expect == got
      puts "  #{what}"
    else
      @wrong += 1
      puts "  WRONG #{what}: expected #{expect.inspect}, got #{got.inspect}"
    end
  end

  # The rows of these ids, given with note and qty 0, 1, ...
  def expected(ids, note)
    ids.each_with_index.map { |id, qty| [id, "#{note}|#{qty}|NULL|NULL|NULL|NULL|NULL"] }
  end

  def rows(table, tag)
    @witness.query("SELECT id, txt FROM #{table}_text WHERE tag = '#{tag}' ORDER BY id", as: :array).to_a
  end

  def one_row(table, first_id)
    @client.query("INSERT INTO #{table} (tag, note, qty) VALUES ('ruby one', '#{@client.escape("it's one")}', 0)")
    id = @client.last_id
    function = @client.query('SELECT LAST_INSERT_ID() AS id').first['id']
    same("#{table}: one row", expected([id], "it's one"), rows(table, 'ruby one'))
    same("#{table}: LAST_INSERT_ID() is last_id", id, function)
    same("#{table}: id #{id} is not below #{first_id}", true, id >= first_id)
  end

  def several(table)
    tag = 'ruby several'
    @client.query("INSERT INTO #{table} (tag, note, qty) VALUES ('#{tag}', 's', 0), ('#{tag}', 's', 1), ('#{tag}', 's', 2)")
    id = @client.last_id
    same("#{table}: affected rows of several", 3, @client.affected_rows)
    same("#{table}: several rows", expected([id, id + 1, id + 2], 's'), rows(table, tag))
  end

  def repeated(table)
    marks = (['?'] * COLUMNS.size).join(', ')
    statement = @client.prepare("INSERT INTO #{table} (tag, #{COLUMNS.join(', ')}) VALUES (?, #{marks})")
    expect = SAMPLES.map do |values, text|
      statement.execute('ruby repeated', *values)
      [statement.last_id, text]
    end
    statement.close
    same("#{table}: repeated executions", expect, rows(table, 'ruby repeated'))

    statement = @client.prepare("INSERT INTO #{table} (id, tag, note, qty) VALUES (?, ?, 'n', 0)")
    statement.execute(nil, 'ruby null')
    same("#{table}: id bound to NULL", expected([statement.last_id], 'n'), rows(table, 'ruby null'))
    statement.close
  end

  # It has no call for a batch: one statement executed in a loop, and one of three rows.
  def batch(table)
    statement = @client.prepare("INSERT INTO #{table} (tag, note, qty) VALUES (?, 'b', ?)")
    ids = Array.new(20) do |qty|
      statement.execute('ruby batch', qty)
      statement.last_id
    end
    same("#{table}: a batch", expected(ids, 'b'), rows(table, 'ruby batch'))

    statement = @client.prepare("INSERT INTO #{table} (tag, note, qty) VALUES (?, 'p', 0), (?, 'p', 1), (?, 'p', 2)")
    statement.execute(*['ruby prepared several'] * 3)
    id = statement.last_id
    same("#{table}: affected rows of several, prepared", 3, statement.affected_rows)
    same("#{table}: several rows, prepared", expected([id, id + 1, id + 2], 'p'), rows(table, 'ruby prepared several'))
  end

  def insert(table, tag, qty)
    @client.query("INSERT INTO #{table} (tag, note, qty) VALUES ('#{tag}', 't', #{qty})")
    @client.last_id
  end

  def transactions(table)
    @client.query('BEGIN')
    ids = [insert(table, 'ruby transaction', 0), insert(table, 'ruby transaction', 1)]
    same("#{table}: nothing is seen before the commit", [], rows(table, 'ruby transaction'))
    @client.query('COMMIT')
    same("#{table}: committed", expected(ids, 't'), rows(table, 'ruby transaction'))

    @client.query('BEGIN')
    gone = insert(table, 'ruby rollback', 0)
    @client.query('ROLLBACK')
    same("#{table}: rolled back", [], rows(table, 'ruby rollback'))
    after = insert(table, 'ruby rollback', 0)
    same("#{table}: after the rollback", expected([after], 't'), rows(table, 'ruby rollback'))
    same("#{table}: id #{gone} is not given again", true, after > gone)
  end
end

Program.new.run
