-- A web shop whose orders have no deadline, only a time of creation; its job cancelled what was older than half an hour.
-- now: sales_orders.cancelled_at

-- [tables]
CREATE TABLE products (
    id serial PRIMARY KEY,
    name varchar(100) NOT NULL,
    price numeric(10, 2) NOT NULL,
    stock integer NOT NULL DEFAULT 0
);
CREATE TABLE sales_orders (
    id serial PRIMARY KEY,
    order_number varchar(20) NOT NULL UNIQUE,
    status varchar(20) NOT NULL DEFAULT 'unpaid',
    total numeric(10, 2) NOT NULL,
    created_at timestamp(0) NOT NULL,
    paid_at timestamp(0),
    cancelled_at timestamp(0)
);
CREATE INDEX sales_orders_unpaid ON sales_orders (created_at, id) WHERE status = 'unpaid';
CREATE TABLE sales_order_items (
    id serial PRIMARY KEY,
    sales_order_id integer NOT NULL REFERENCES sales_orders ON DELETE CASCADE,
    product_id integer NOT NULL REFERENCES products,
    qty integer NOT NULL
);
CREATE INDEX items_of_order ON sales_order_items (sales_order_id);
INSERT INTO products (id, name, price, stock) VALUES (1, 'Kettle', 99, 4), (2, 'Toaster', 120, 0);

-- [rows]
INSERT INTO sales_orders (id, order_number, status, total, created_at, paid_at)
SELECT id, 'Z/' || id, status, 99, utc - ago, CASE status WHEN 'paid' THEN utc - interval '2 hours' END
FROM (SELECT date_trunc('second', statement_timestamp() AT TIME ZONE 'UTC') AS utc) AS clock,
    (VALUES (1, 'unpaid', interval '3 hours'), (2, 'unpaid', '31 minutes'), (3, 'unpaid', '1830 seconds'),
        (4, 'unpaid', '10 minutes'), (5, 'paid', '3 hours')) AS o (id, status, ago);
INSERT INTO sales_order_items (sales_order_id, product_id, qty) VALUES
    (1, 1, 1), (1, 2, 2), (2, 1, 3), (3, 1, 1), (4, 2, 1), (5, 1, 1);

-- [expected]
UPDATE sales_orders SET status = 'cancelled', cancelled_at = statement_timestamp() AT TIME ZONE 'UTC'
WHERE status = 'unpaid' AND created_at <= statement_timestamp() AT TIME ZONE 'UTC' - interval '31 minutes';
UPDATE products SET stock = stock + CASE id WHEN 1 THEN 4 ELSE 2 END;
