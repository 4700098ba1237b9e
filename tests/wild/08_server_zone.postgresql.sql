-- A shop in Tokyo whose server runs on local time; its columns keep the zone.
-- zone: Asia/Tokyo
-- now: shop_orders.closed_at

-- [tables]
CREATE TABLE goods (
    code varchar(20) PRIMARY KEY,
    left_over integer NOT NULL,
    kept integer NOT NULL
);
CREATE TABLE shop_orders (
    id serial PRIMARY KEY,
    no varchar(20) NOT NULL UNIQUE,
    state smallint NOT NULL,
    price integer NOT NULL,
    placed_at timestamptz(0) NOT NULL DEFAULT now(),
    pay_by timestamptz(0),
    closed_at timestamptz(0),
    day_of_order date NOT NULL DEFAULT current_date
);
COMMENT ON COLUMN shop_orders.state IS '0: unpaid, 1: paid, 2: cancelled';
CREATE TABLE shop_order_goods (
    order_no varchar(20) NOT NULL REFERENCES shop_orders (no),
    goods_code varchar(20) NOT NULL REFERENCES goods (code),
    pieces integer NOT NULL,
    PRIMARY KEY (order_no, goods_code)
);
INSERT INTO goods VALUES ('TEA', 30, 4), ('CUP', 8, 3);

-- [rows]
INSERT INTO shop_orders (id, no, state, price, pay_by) VALUES
    (1, 'J1', 0, 1200, now() - interval '4 hours'), (2, 'J2', 0, 1200, now() - interval '61 seconds'),
    (3, 'J3', 0, 1200, now() - interval '20 seconds'), (4, 'J4', 0, 1200, now() + interval '4 hours'),
    (5, 'J5', 1, 1200, now() - interval '4 hours');
INSERT INTO shop_order_goods VALUES ('J1', 'TEA', 2), ('J1', 'CUP', 1), ('J2', 'TEA', 1), ('J3', 'CUP', 1), ('J4', 'TEA', 1);

-- [expected]
UPDATE shop_orders SET state = 2, closed_at = now() WHERE state = 0 AND pay_by <= now() - interval '60 seconds';
UPDATE goods SET left_over = left_over + CASE code WHEN 'TEA' THEN 3 ELSE 1 END,
    kept = kept - CASE code WHEN 'TEA' THEN 3 ELSE 1 END;
