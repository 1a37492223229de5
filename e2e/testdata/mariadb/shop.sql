CREATE DATABASE orders CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
USE orders;
CREATE TABLE items (
  id int AUTO_INCREMENT PRIMARY KEY,
  `näme "of" it` varchar(80) COLLATE utf8mb4_bin NOT NULL,
  price decimal(10,2) NOT NULL,
  gross decimal(12,4) AS (price * 1.19) STORED,
  half decimal(12,4) AS (price / 2) VIRTUAL,
  photo longblob,
  attributes json,
  changed datetime(6),
  kind enum('a','b''c') DEFAULT 'a',
  UNIQUE KEY by_name (`näme "of" it`), KEY by_price (price)
) ENGINE=InnoDB AUTO_INCREMENT=100;
INSERT INTO items (id, `näme "of" it`, price, photo, attributes, changed, kind)
  SELECT seq, CONCAT('item ', seq, ' 🐘 \\ '' ; --'), seq * 1.5, IF(seq % 3 = 0, NULL, UNHEX(CONCAT('00FF0A0D1A5C27', LPAD(HEX(seq), 4, '0')))),
    JSON_OBJECT('n', seq, 'tags', JSON_ARRAY('é', '"')), '2026-12-01 08:00:00.123456', IF(seq % 2, 'a', 'b''c') FROM seq_1_to_60;
CREATE TABLE notes (id int PRIMARY KEY, item int, text mediumtext, FOREIGN KEY (item) REFERENCES items (id) ON DELETE CASCADE);
INSERT INTO notes SELECT seq, seq, REPEAT(CONCAT('line ', seq, '\n'), 20) FROM seq_1_to_20;
CREATE TABLE `empty ``table``` (id int);
CREATE VIEW paid AS SELECT id, price FROM items WHERE kind = 'a';
CREATE SEQUENCE numbers START WITH 1000 INCREMENT BY 10;
CREATE TABLE counter_a (n int); INSERT INTO counter_a VALUES (0);
CREATE TABLE counter_b (n int); INSERT INTO counter_b VALUES (0);
CREATE TABLE written (id int AUTO_INCREMENT PRIMARY KEY, text text);
DELIMITER //
CREATE TRIGGER priced BEFORE UPDATE ON items FOR EACH ROW BEGIN SET NEW.changed = NOW(6); END//
CREATE PROCEDURE raise_prices(IN by_percent int) BEGIN UPDATE items SET price = price * (100 + by_percent) / 100; END//
CREATE FUNCTION doubled(x int) RETURNS int DETERMINISTIC BEGIN RETURN x * 2; END//
CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 02:00:00' DO BEGIN DELETE FROM written WHERE id < 0; END//
DELIMITER ;
