-- A shop in Tokyo whose server runs on local time and whose columns are TIMESTAMP, the order's update time too.
-- zone: +09:00
-- now: shop_orders.closed_at, shop_orders.changed_at

-- [tables]
CREATE TABLE goods (
    code varchar(20) NOT NULL PRIMARY KEY,
    left_over int NOT NULL,
    kept int NOT NULL
);
CREATE TABLE shop_orders (
    id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
    no varchar(20) NOT NULL UNIQUE,
    state tinyint(1) NOT NULL COMMENT '0: unpaid, 1: paid, 2: cancelled',
    price int NOT NULL,
    placed_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
    pay_by timestamp NULL,
    closed_at timestamp NULL,
    changed_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP
);
CREATE TABLE shop_order_goods (
    order_no varchar(20) NOT NULL,
    goods_code varchar(20) NOT NULL,
    pieces int NOT NULL,
    PRIMARY KEY (order_no, goods_code),
    FOREIGN KEY (order_no) REFERENCES shop_orders (no),
    FOREIGN KEY (goods_code) REFERENCES goods (code)
);
INSERT INTO goods VALUES ('TEA', 30, 4), ('CUP', 8, 3);

-- [rows]
INSERT INTO shop_orders (id, no, state, price, pay_by, changed_at) VALUES
    (1, 'J1', 0, 1200, NOW() - INTERVAL 4 HOUR, '2024-01-01'), (2, 'J2', 0, 1200, NOW() - INTERVAL 61 SECOND, '2024-01-01'),
    (3, 'J3', 0, 1200, NOW() - INTERVAL 20 SECOND, '2024-01-01'), (4, 'J4', 0, 1200, NOW() + INTERVAL 4 HOUR, '2024-01-01'),
    (5, 'J5', 1, 1200, NOW() - INTERVAL 4 HOUR, '2024-01-01');
INSERT INTO shop_order_goods VALUES ('J1', 'TEA', 2), ('J1', 'CUP', 1), ('J2', 'TEA', 1), ('J3', 'CUP', 1), ('J4', 'TEA', 1);

-- [expected]
UPDATE shop_orders SET state = 2, closed_at = NOW() WHERE state = 0 AND pay_by <= NOW() - INTERVAL 60 SECOND;
UPDATE goods SET left_over = left_over + CASE code WHEN 'TEA' THEN 3 ELSE 1 END,
    kept = kept - CASE code WHEN 'TEA' THEN 3 ELSE 1 END;
