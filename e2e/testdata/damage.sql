-- What happens on the worst day of the year.
UPDATE sales.customers SET "full name" = 'gone' WHERE id % 2 = 0;
DELETE FROM "Sales & ""Ops""; -- %s"."Order ""Lines""; DROP TABLE sales.orders; --" WHERE "select" > 10;
DROP TABLE sales.events;
DROP EXTENSION pg_trgm CASCADE;
DROP VIEW sales.paid;
DROP POLICY "only paid" ON sales.orders;
TRUNCATE child;
SELECT lo_unlink(4711);
SELECT lo_from_bytea(4713, 'new');
SELECT setval('sales.orders_id_seq', 7);
REVOKE ALL ON sales.orders FROM shop_reader;
GRANT ALL ON SCHEMA sales TO PUBLIC;
CREATE TABLE sales.surplus AS SELECT 1 AS one;
