-- A book shop that was written with duetime in mind: it writes rows of duetime_hold beside its own order rows.
-- now: shop_order.cancelled_at

-- [tables]
CREATE TABLE customer (
    id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    email varchar(190) NOT NULL UNIQUE
);
CREATE TABLE article (
    article_no varchar(30) NOT NULL PRIMARY KEY,
    title varchar(200) NOT NULL,
    in_stock int unsigned NOT NULL,
    reserved int unsigned NOT NULL DEFAULT 0
);
CREATE TABLE voucher (
    code varchar(20) NOT NULL PRIMARY KEY,
    state enum('valid', 'reserved', 'redeemed', 'lapsed') NOT NULL DEFAULT 'valid',
    valid_until datetime(6) DEFAULT NULL
);
CREATE TABLE shop_order (
    id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    number varchar(30) NOT NULL,
    customer_id bigint unsigned NOT NULL,
    status enum('awaiting_payment', 'paid', 'cancelled', 'shipped') NOT NULL,
    total decimal(12, 2) NOT NULL,
    currency char(3) NOT NULL DEFAULT 'EUR',
    payment_deadline datetime(6) DEFAULT NULL COMMENT 'UTC',
    cancelled_at datetime(6) DEFAULT NULL,
    cancel_reason varchar(100) DEFAULT NULL,
    UNIQUE KEY uk_number (number),
    KEY by_customer (customer_id),
    CONSTRAINT fk_customer FOREIGN KEY (customer_id) REFERENCES customer (id),
    CONSTRAINT when_cancelled CHECK (status <> 'cancelled' OR cancelled_at IS NOT NULL)
);
INSERT INTO customer (email) VALUES ('reader@example.org'), ('library@example.org');
INSERT INTO article VALUES ('B-1', 'The Sea', 40, 9), ('B-2', 'The Hill', 7, 4), ('B-3', 'Nobody wants this', 100, 0);
INSERT INTO voucher VALUES
    ('SPRING', 'reserved', UTC_TIMESTAMP(6) + INTERVAL 9 DAY), ('OLD', 'reserved', '2020-01-01 00:00:00'),
    ('SUMMER', 'reserved', NULL), ('SPARE', 'valid', NULL);

-- [rows]
INSERT INTO shop_order (number, customer_id, status, total, payment_deadline, cancelled_at, cancel_reason) VALUES
    ('2024-0001', 1, 'awaiting_payment', 20, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR, NULL, NULL),
    ('2024-0002', 1, 'awaiting_payment', 31.5, UTC_TIMESTAMP(6) - INTERVAL 60 SECOND, NULL, NULL),
    ('2024-0003', 2, 'awaiting_payment', 12, UTC_TIMESTAMP(6) - INTERVAL 40 SECOND, NULL, NULL),
    ('2024-0004', 2, 'awaiting_payment', 12, UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, NULL, NULL),
    ('2024-0005', 2, 'paid', 12, UTC_TIMESTAMP(6) - INTERVAL 5 HOUR, NULL, NULL),
    ('2024-0006', 1, 'cancelled', 12, UTC_TIMESTAMP(6) - INTERVAL 2 DAY, '2024-05-01 12:00:00', 'customer'),
    ('2024-0007', 2, 'awaiting_payment', 0, NULL, NULL, NULL),
    ('2024-0008', 2, 'awaiting_payment', 12, UTC_TIMESTAMP(6) - INTERVAL 2 DAY, NULL, NULL);
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('2024-0001', 'article', 'B-1', 2), ('2024-0001', 'article', 'B-2', 1), ('2024-0001', 'voucher', 'SPRING', 1),
    ('2024-0002', 'article', 'B-1', 3), ('2024-0002', 'voucher', 'OLD', 1),
    ('2024-0003', 'article', 'B-1', 2), ('2024-0003', 'voucher', 'SUMMER', 1), ('2024-0004', 'article', 'B-2', 3),
    ('2024-0005', 'article', 'B-1', 2);

-- [expected]
UPDATE shop_order SET status = 'cancelled', cancelled_at = UTC_TIMESTAMP(6), cancel_reason = 'timeout'
WHERE status = 'awaiting_payment' AND payment_deadline <= UTC_TIMESTAMP(6) - INTERVAL 60 SECOND;
UPDATE article SET in_stock = in_stock + 5, reserved = reserved - 5 WHERE article_no = 'B-1';
UPDATE article SET in_stock = in_stock + 1, reserved = reserved - 1 WHERE article_no = 'B-2';
UPDATE voucher SET state = 'valid' WHERE code = 'SPRING';
UPDATE voucher SET state = 'lapsed' WHERE code = 'OLD';
