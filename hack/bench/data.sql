-- data.sql: a database of about :mib MiB like one that a shop has: text, numbers, JSON, and a tenth that does not
-- compress. Every value follows from its row's number, so that each run has the same. :part says which of the tables
-- are made, because two sessions make them at once.
\set ON_ERROR_STOP on
\set QUIET on
SET synchronous_commit = off;
SET maintenance_work_mem = '256MB';
SET client_min_messages = warning;
SELECT :part = 1 AS first \gset

-- pick returns one word; the k-th of row i is always the same.
CREATE FUNCTION pg_temp.pick(i bigint, k int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT ('{please,deliver,after,noon,the,parcel,is,fragile,and,heavy,customer,called,twice,about,invoice,missing,
	address,changed,leave,with,neighbour,if,nobody,answers,refund,requested,because,colour,was,wrong,size,small,green,
	blue,yellow,delayed,by,weather,warehouse,north,south,express,standard,gift,wrapped,paper,ribbon,card,birthday,
	returned,damaged,corner,photo,attached,waiting,for,reply,confirmed,phone,email,second,attempt,Thursday,Friday}'
	::text[])[1 + (hashint8extended(i, k) & 63)]
$$;
CREATE FUNCTION pg_temp.sentence(i bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT pg_temp.pick(i, 1) || ' ' || pg_temp.pick(i, 2) || ' ' || pg_temp.pick(i, 3) || ' ' || pg_temp.pick(i, 4)
		|| ' ' || pg_temp.pick(i, 5) || ' ' || pg_temp.pick(i, 6) || ' ' || pg_temp.pick(i, 7) || ' ' || pg_temp.pick(i, 8) || ' ' || pg_temp.pick(i, 9)
$$;

\if :first
CREATE TABLE orders (id bigint NOT NULL, customer int NOT NULL, placed timestamptz NOT NULL, status text NOT NULL,
	total numeric(12, 2) NOT NULL, note text, attributes jsonb);
INSERT INTO orders
SELECT i, hashint8extended(i, 20) & 65535, timestamptz '2026-01-01 00:00:00Z' + i * interval '7.3 seconds',
	(ARRAY['placed', 'paid', 'sent', 'delivered', 'returned'])[1 + (hashint8extended(i, 21) & 1023) % 5],
	(hashint8extended(i, 22) & 1048575) / 100.0, pg_temp.sentence(i),
	jsonb_build_object('channel', pg_temp.pick(i, 30), 'session', md5(i::text), 'weight', hashint8extended(i, 31) & 4095,
		'gift', i % 7 = 0)
FROM generate_series(1::bigint, :mib * 1650) AS i;
ALTER TABLE orders ADD PRIMARY KEY (id);
CREATE INDEX orders_customer ON orders (customer);
\else
CREATE TABLE order_items ("order" bigint NOT NULL, line int NOT NULL, sku text NOT NULL, quantity int NOT NULL,
	price numeric(10, 2) NOT NULL);
INSERT INTO order_items
SELECT i / 3, i % 3, 'SKU-' || lpad((hashint8extended(i, 40) & 16383)::text, 6, '0'), 1 + (hashint8extended(i, 41) & 7),
	(hashint8extended(i, 42) & 65535) / 100.0
FROM generate_series(1::bigint, :mib * 2750) AS i;
ALTER TABLE order_items ADD PRIMARY KEY ("order", line);

CREATE TABLE events (id bigint NOT NULL, body jsonb NOT NULL);
INSERT INTO events
SELECT i, jsonb_build_object('type', pg_temp.pick(i, 50), 'at', 1767225600 + i, 'trace', md5(i::text || 't'),
	'user', jsonb_build_object('id', hashint8extended(i, 51) & 65535, 'agent', 'Mozilla/5.0 (X11; Linux x86_64)'),
	'message', pg_temp.sentence(i))
FROM generate_series(1::bigint, :mib * 600) AS i;
ALTER TABLE events ADD PRIMARY KEY (id);

CREATE TABLE attachments (id bigint NOT NULL, name text NOT NULL, content bytea NOT NULL);
ALTER TABLE attachments ALTER content SET STORAGE EXTERNAL;
INSERT INTO attachments
SELECT i, 'photo-' || i || '.jpg', (SELECT string_agg(sha512((i || '-' || k)::bytea), ''::bytea ORDER BY k)
	FROM generate_series(1, 128) AS k)
FROM generate_series(1::bigint, :mib * 13) AS i;
ALTER TABLE attachments ADD PRIMARY KEY (id);
\endif
