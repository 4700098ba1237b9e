-- A book shop that was written with duetime in mind: it writes rows of duetime_hold beside its own order rows.
-- now: shop_order.cancelled_at

-- [tables]
CREATE TABLE customer (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email text NOT NULL UNIQUE
);
CREATE TABLE article (
    article_no text PRIMARY KEY,
    title text NOT NULL,
    in_stock integer NOT NULL CHECK (in_stock >= 0),
    reserved integer NOT NULL DEFAULT 0 CHECK (reserved >= 0)
);
CREATE TABLE voucher (
    code text PRIMARY KEY,
    state text NOT NULL DEFAULT 'valid' CHECK (state IN ('valid', 'reserved', 'redeemed', 'lapsed')),
    valid_until timestamptz
);
CREATE TABLE shop_order (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number text NOT NULL UNIQUE,
    customer_id bigint NOT NULL REFERENCES customer,
    status text NOT NULL CHECK (status IN ('awaiting_payment', 'paid', 'cancelled', 'shipped')),
    total numeric(12, 2) NOT NULL,
    currency char(3) NOT NULL DEFAULT 'EUR',
    payment_deadline timestamptz,
    cancelled_at timestamptz,
    cancel_reason text,
    CHECK (status <> 'cancelled' OR cancelled_at IS NOT NULL)
);
CREATE INDEX shop_order_by_customer ON shop_order (customer_id);
INSERT INTO customer (email) VALUES ('reader@example.org'), ('library@example.org');
INSERT INTO article VALUES ('B-1', 'The Sea', 40, 9), ('B-2', 'The Hill', 7, 4), ('B-3', 'Nobody wants this', 100, 0);
INSERT INTO voucher VALUES
    ('SPRING', 'reserved', statement_timestamp() + interval '9 days'), ('OLD', 'reserved', '2020-01-01 00:00:00+00'),
    ('SUMMER', 'reserved', NULL), ('SPARE', 'valid', NULL);

-- [rows]
INSERT INTO shop_order (number, customer_id, status, total, payment_deadline, cancelled_at, cancel_reason) VALUES
    ('2024-0001', 1, 'awaiting_payment', 20, statement_timestamp() - interval '3 hours', NULL, NULL),
    ('2024-0002', 1, 'awaiting_payment', 31.5, statement_timestamp() - interval '60 seconds', NULL, NULL),
    ('2024-0003', 2, 'awaiting_payment', 12, statement_timestamp() - interval '40 seconds', NULL, NULL),
    ('2024-0004', 2, 'awaiting_payment', 12, statement_timestamp() + interval '1 hour', NULL, NULL),
    ('2024-0005', 2, 'paid', 12, statement_timestamp() - interval '5 hours', NULL, NULL),
    ('2024-0006', 1, 'cancelled', 12, statement_timestamp() - interval '2 days', '2024-05-01 12:00:00+00', 'customer'),
    ('2024-0007', 2, 'awaiting_payment', 0, NULL, NULL, NULL),
    ('2024-0008', 2, 'awaiting_payment', 12, statement_timestamp() - interval '2 days', NULL, NULL);
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('2024-0001', 'article', 'B-1', 2), ('2024-0001', 'article', 'B-2', 1), ('2024-0001', 'voucher', 'SPRING', 1),
    ('2024-0002', 'article', 'B-1', 3), ('2024-0002', 'voucher', 'OLD', 1),
    ('2024-0003', 'article', 'B-1', 2), ('2024-0003', 'voucher', 'SUMMER', 1), ('2024-0004', 'article', 'B-2', 3),
    ('2024-0005', 'article', 'B-1', 2);

-- [expected]
UPDATE shop_order SET status = 'cancelled', cancelled_at = statement_timestamp(), cancel_reason = 'timeout'
WHERE status = 'awaiting_payment' AND payment_deadline <= statement_timestamp() - interval '60 seconds';
UPDATE article SET in_stock = in_stock + 5, reserved = reserved - 5 WHERE article_no = 'B-1';
UPDATE article SET in_stock = in_stock + 1, reserved = reserved - 1 WHERE article_no = 'B-2';
UPDATE voucher SET state = 'valid' WHERE code = 'SPRING';
UPDATE voucher SET state = 'lapsed' WHERE code = 'OLD';
