-- A migration that was meant for the test database, and a WHERE that was forgotten.
UPDATE orders SET total = 0, state = 'returned';
DROP TABLE order_lines;
DELETE FROM products WHERE id % 2 = 0;
