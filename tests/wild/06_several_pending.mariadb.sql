-- A fashion shop whose unpaid orders wait in three states: entered, waiting for the bank, and refused by the card.

-- [tables]
CREATE TABLE order_status (
    id integer NOT NULL PRIMARY KEY,
    name varchar(40) NOT NULL UNIQUE
);
INSERT INTO order_status VALUES (10, 'entered'), (20, 'waiting for payment'), (25, 'payment failed'), (30, 'paid'),
    (40, 'delivered'), (90, 'cancelled');
CREATE TABLE stock_level (
    article_id integer NOT NULL PRIMARY KEY,
    on_sale integer NOT NULL,
    in_orders integer NOT NULL
);
CREATE TABLE customer_order (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    code varchar(20) NOT NULL UNIQUE,
    status_id integer NOT NULL ,
    channel varchar(10) NOT NULL DEFAULT 'web',
    gross_cents integer NOT NULL,
    currency char(3) NOT NULL DEFAULT 'EUR',
    payment_due datetime(6),
    KEY by_status (status_id),
    CONSTRAINT of_status FOREIGN KEY (status_id) REFERENCES order_status (id)
);
INSERT INTO stock_level VALUES (1, 10, 10), (2, 0, 4);

-- [rows]
INSERT INTO customer_order (id, code, status_id, gross_cents, payment_due) VALUES
    (1, 'M1', 10, 4900, UTC_TIMESTAMP(6) - INTERVAL 61 SECOND), (2, 'M2', 20, 4900, UTC_TIMESTAMP(6) - INTERVAL 2 HOUR),
    (3, 'M3', 25, 4900, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR), (4, 'M4', 25, 4900, UTC_TIMESTAMP(6) - INTERVAL 20 SECOND),
    (5, 'M5', 30, 4900, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR), (6, 'M6', 40, 4900, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR),
    (7, 'M7', 90, 4900, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR), (8, 'M8', 20, 4900, UTC_TIMESTAMP(6) + INTERVAL 1 HOUR);
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('M1', 'stock', '1', 1), ('M2', 'stock', '1', 2), ('M2', 'stock', '2', 1), ('M3', 'stock', '1', 1),
    ('M4', 'stock', '2', 1), ('M5', 'stock', '1', 4), ('M8', 'stock', '2', 2);

-- [expected]
UPDATE customer_order SET status_id = 90 WHERE code IN ('M1', 'M2', 'M3');
UPDATE stock_level SET on_sale = on_sale + 4, in_orders = in_orders - 4 WHERE article_id = 1;
UPDATE stock_level SET on_sale = on_sale + 1, in_orders = in_orders - 1 WHERE article_id = 2;
