-- A small shop: everything follows from numbers, so each run has the same rows.
CREATE TYPE state AS ENUM ('placed', 'paid', 'shipped', 'returned');

CREATE TABLE customers (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    email text NOT NULL UNIQUE,
    preferences jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE products (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    price numeric(8, 2) NOT NULL CHECK (price > 0)
);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer integer NOT NULL REFERENCES customers,
    placed timestamptz NOT NULL,
    state state NOT NULL,
    total numeric(10, 2) NOT NULL DEFAULT 0
);
CREATE TABLE order_lines (
    "order" bigint NOT NULL REFERENCES orders ON DELETE CASCADE,
    line integer NOT NULL,
    product integer NOT NULL REFERENCES products,
    quantity integer NOT NULL CHECK (quantity > 0),
    PRIMARY KEY ("order", line)
);

INSERT INTO customers (name, email, preferences)
SELECT 'Customer ' || i || ' O''Brien', 'c' || i || '@example.com', jsonb_build_object('größe', i % 7, 'news', i % 2 = 0)
FROM generate_series(1, 1200) i;
INSERT INTO products (name, price) SELECT 'Product "' || i || '"', 1 + i * 37 % 9000 / 100.0 FROM generate_series(1, 150) i;
INSERT INTO orders (customer, placed, state)
SELECT 1 + i * 31 % 1200, timestamptz '2026-01-01 00:00+00' + i * interval '37 minutes',
       (enum_range(NULL::state))[1 + i % 4]
FROM generate_series(1, 12000) i;
INSERT INTO order_lines SELECT o, l, 1 + (o * 13 + l * 7) % 150, 1 + (o + l) % 5
FROM generate_series(1, 12000) o, generate_series(1, 3) l WHERE (o + l) % 4 > 0;
UPDATE orders SET total = sums.total FROM (
    SELECT "order", sum(quantity * price) AS total FROM order_lines JOIN products p ON p.id = product GROUP BY "order"
) sums WHERE sums."order" = id;

CREATE INDEX ON orders (customer, placed DESC);
CREATE VIEW revenue AS SELECT date_trunc('month', placed) AS month, sum(total) AS total FROM orders GROUP BY 1;
