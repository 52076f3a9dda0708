-- Run by run.sh as root on a fresh server. @AUTO@ is AUTO_INCREMENT where the programs run straight against the server,
-- and nothing where Rowstamp gives orders its ids; @START@ likewise. kept has AUTO_INCREMENT always: a table in migration.
CREATE DATABASE app CHARACTER SET utf8mb4;
USE app;
SET NAMES utf8mb4;

CREATE TABLE orders (
  id BIGINT NOT NULL @AUTO@ PRIMARY KEY,
  tag VARCHAR(64) NOT NULL,
  note VARCHAR(200),
  qty INT,
  price DECIMAL(12,2),
  weight DOUBLE,
  placed DATETIME(6),
  paid TINYINT(1),
  payload VARBINARY(64),
  KEY (tag)
) @START@;
CREATE TABLE kept LIKE orders;
ALTER TABLE kept MODIFY id BIGINT NOT NULL AUTO_INCREMENT, AUTO_INCREMENT = 7000;

-- One text for a row, so that programs in seven languages compare what arrived without seven sets of type conversions.
CREATE VIEW orders_text AS SELECT id, tag, CONCAT_WS('|', IFNULL(note, 'NULL'), IFNULL(qty, 'NULL'), IFNULL(price, 'NULL'),
  IFNULL(weight, 'NULL'), IFNULL(placed, 'NULL'), IFNULL(paid, 'NULL'), IFNULL(HEX(payload), 'NULL')) AS txt FROM orders;
CREATE VIEW kept_text AS SELECT id, tag, CONCAT_WS('|', IFNULL(note, 'NULL'), IFNULL(qty, 'NULL'), IFNULL(price, 'NULL'),
  IFNULL(weight, 'NULL'), IFNULL(placed, 'NULL'), IFNULL(paid, 'NULL'), IFNULL(HEX(payload), 'NULL')) AS txt FROM kept;
